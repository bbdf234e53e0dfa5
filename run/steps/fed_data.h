// FedData: the training data of a run whose batches the calling program feeds. It stands for data of a known size and
// holds one batch, from which memory estimates and the check of an exported file take their shapes.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "graph/source.h"
#include "run/data/data.h"

namespace amp {

class FedData final : public Dataset {
 public:
  // samples: number of samples of an epoch.
  explicit FedData(int64_t samples) : samples_(samples) {}

  // Copies the batch, so that the tensors' memory may be released.
  void keep(const Batch& batch);
  bool kept() const { return batch_.rows > 0; }
  // Extends the input ranges by those of a batch.
  void observe(const InputRanges& ranges);

  int64_t size() const override { return samples_; }
  InputRanges input_ranges() const override { return ranges_; }
  std::string where(int64_t) const override { return "a fed batch"; }
  // Returns the batch of keep() for any samples. Throws E_FED_DATA (Exit::usage) if there is none.
  Batch batch(std::span<const int64_t> samples) const override;
  // Does nothing: every fed batch is checked when it arrives (check_fed()).
  void check_token_range(const std::string&, int64_t) const override {}
  void check_label_range(int64_t, int64_t) const override {}

 private:
  int64_t samples_;
  Batch batch_;
  InputRanges ranges_;
};

// A checked batch, and the value ranges of its inputs. The tensors are those that were given if their types are the
// graph's; otherwise they are converted copies.
struct CheckedBatch {
  std::unique_ptr<Dataset> data;  // one sample, which is the whole batch
  Batch batch;
};

// Checks names, shapes, kinds of numbers, finite values, token ids and class labels as for a file of tensors. Throws
// the errors of make_tensor_dataset() (data/tensor_dataset.h) and of check_labels() (run/prepare/objective.h).
CheckedBatch check_fed(const Tensors& tensors, const SourceGraph& graph, const DataNeeds& needs, const Losses& losses);

}  // namespace amp
