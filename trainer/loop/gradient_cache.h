// GradientCache: computes losses across rows (in-batch negatives) over a whole accumulation step with the memory of one
// micro-batch (GradCache; Gao, Zhang, Han, Callan 2021, "Scaling Deep Contrastive Learning Batch Size under Memory
// Limited Setup", arXiv:2101.06983). The stages are:
//   1. Run the forward pass of every micro-batch in training form. Keep only the outputs that losses across rows read.
//   2. Compute these losses over all rows, and their gradients with respect to the outputs. The gradients are the
//      cache.
//   3. Run every micro-batch again, forward and backward, with its rows of the cache as gradients of the outputs.
// Stage 3 computes the other losses as usual. With several ranks, stage 2 uses the rows of all ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/compile/session.h"

namespace amp {

class GradientCache {
 public:
  // All arguments must outlive the cache. Throws E_GRADIENT_CACHE if a loss across rows has labels and there are
  // several ranks, because labels are not exchanged.
  GradientCache(Session& session, const Losses& losses, Communicator& ranks = one_rank());
  ~GradientCache();

  // As launch_micro_batches(). rows: number of rows of the accumulation step on all ranks. Every rank must call it,
  // also without micro-batches.
  void launch(const std::vector<Tensors>& batches, const std::vector<int64_t>& before, int64_t rows, LossTerms& terms,
              GradientWatch* watch = nullptr);

  int64_t bytes() const { return joints_.arena().used(); }  // memory of stage 2
  // Estimated host memory of the Programs of stage 2. The least recently used ones are removed beyond the limit of the
  // session's Programs (ProgramCache::limit).
  int64_t program_bytes() const { return joints_.bytes(); }
  size_t programs() const { return joints_.size(); }

 private:
  struct Joint;  // the Program of stage 2
  struct Term {
    size_t index;                // index among all loss terms
    std::vector<size_t> values;  // indices in values_: the outputs that the term reads
  };

  void observe(const Program& forward, int64_t rows);
  void agree();
  Tensors joined_labels(const std::vector<Tensors>& batches) const;
  std::shared_ptr<const Graph> graph(int64_t rows, const Tensors& labels) const;
  Joint& joint(int64_t rows, const Tensors& labels);

  Session& session_;
  const Losses& losses_;
  Communicator& ranks_;
  const Losses across_;  // losses_across_rows()
  std::vector<Term> terms_;
  std::vector<std::string> values_;                    // names of the outputs that the terms read, unique
  std::vector<Dims> widths_;                           // dims of one row of each output; empty before the first step
  bool agreed_ = false;                                // the ranks have exchanged widths_
  ArenaCache<Bucket, std::unique_ptr<Joint>> joints_;  // key: number of rows, and shapes of the labels
};

}  // namespace amp
