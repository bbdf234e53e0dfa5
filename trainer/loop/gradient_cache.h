// GradientCache: the losses across rows (in-batch negatives) of a whole window, in the memory of a micro-batch (Gao,
// Zhang, Han, Callan 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup",
// arXiv:2101.06983):
//   1. every micro-batch forward, as it trains; nothing is kept but the outputs that such losses read
//   2. the losses of all rows together, and their gradients with respect to those outputs: the cache
//   3. every micro-batch again, forward and backward, from its rows of the cache
// What is not across rows is computed in 3 as ever. Of several ranks the rows are those of all.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/compile/session.h"

namespace amp {

class GradientCache {
 public:
  // All must outlive the cache. E_RANKS for a loss with labels, which ranks do not tell each other.
  GradientCache(Session& session, const Losses& losses, Communicator& ranks = one_rank());
  ~GradientCache();

  // As launch_window(). rows: of the window, on all ranks. Every rank calls it, with or without micro-batches.
  void launch(const std::vector<Tensors>& batches, const std::vector<int64_t>& before, int64_t rows, LossTerms& terms,
              GradientWatch* watch = nullptr);

  int64_t bytes() const { return arena_->used(); }  // of the second stage

 private:
  struct Joint;  // the second stage's Program
  struct Term {
    size_t index;                // among all terms
    std::vector<size_t> values;  // that it reads, of values_
  };

  void see(const Program& forward, int64_t rows);
  void agree();
  Tensors joined_labels(const std::vector<Tensors>& batches) const;
  std::shared_ptr<const Graph> graph(int64_t rows, const Tensors& labels) const;
  Joint& joint(int64_t rows, const Tensors& labels);

  Session& session_;
  const Losses& losses_;
  Communicator& ranks_;
  const Losses across_;  // losses_across_rows()
  std::vector<Term> terms_;
  std::vector<std::string> values_;  // that they read, each once
  std::vector<Dims> widths_;         // dims of a row of each; empty before the first window
  std::unique_ptr<Arena> arena_;
  std::map<Bucket, std::unique_ptr<Joint>> joints_;  // by rows and labels
};

}  // namespace amp
