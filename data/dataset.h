// Dataset: the interface of training and evaluation data. Samples are numbered from 0 and are collated into batches,
// which hold one tensor per graph input. A Dataset is immutable, so any number of threads may request batches. Errors
// have exit code 5 and name the file and the line or table row.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/input_range.h"

namespace amp {

constexpr int64_t kIgnoreIndex = -100;  // label that losses and metrics ignore

// A graph input that the data feed.
struct InputSpec {
  std::string name;
  DType dtype = DType::i64;
  std::optional<Dims> dims = {};  // declared dims, -1 if dynamic; absent: unknown rank
};

struct AnswerKey;     // data/questions.h
struct SampleGroups;  // data/sample_groups.h

struct Batch {
  std::map<std::string, HostTensor> inputs;
  HostTensor labels;                              // empty if the data have no labels
  std::map<std::string, HostTensor> more_labels;  // additional labels that a loss reads by name
  std::vector<int64_t> samples;                   // index of each sample of the batch in Dataset::numbered()
  int64_t rows = 0;  // number of samples; inputs may have several rows (dimension 0) for each
  // Number of labels by which the loss is divided: integer labels other than kIgnoreIndex, or all float labels.
  int64_t valid_items = 0;
  int64_t tokens = 0;  // tokens before padding, for texts; otherwise 0
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual int64_t rows_per_sample() const { return 1; }  // number of consecutive input rows of a sample: a pair has 2
  virtual std::span<const int32_t> lengths() const { return {}; }  // tokens per sample; empty if all are equal
  // Returns the bucket (a number from 0) of each sample; empty: no buckets. All samples of a batch are of one bucket. A
  // batch of bucket 0 is the most expensive.
  virtual std::span<const int32_t> buckets() const { return {}; }
  // Returns the index of the table row that each sample comes from; empty: sample i comes from row i.
  virtual std::span<const int64_t> source_rows() const { return {}; }
  virtual Batch batch(std::span<const int64_t> samples) const = 0;
  virtual HostTensor labels_of(std::span<const int64_t> samples) const { return batch(samples).labels; }
  // Like batch(), with the random augmentation of the given epoch if the dataset has any.
  virtual Batch training_batch(std::span<const int64_t> samples, int64_t) const { return batch(samples); }
  // Returns the same samples with the transforms for evaluation; null if training uses the same transforms.
  virtual std::shared_ptr<const Dataset> for_evaluation() const { return nullptr; }
  virtual int64_t cut_samples() const { return 0; }  // number of samples with a text truncated to max_seq_len
  virtual const AnswerKey* answers() const { return nullptr; }    // the reference answers of questions, or null
  virtual const SampleGroups* groups() const { return nullptr; }  // groups for which metrics are reported separately
  // Returns the value ranges of the floating-point inputs (data/input_range.h).
  virtual InputRanges input_ranges() const { return {}; }
  virtual std::string where(int64_t sample) const = 0;  // returns a position such as "train.csv:17"
  // Returns the dataset that the indices in Batch::samples refer to. For a subset this is the underlying dataset.
  virtual const Dataset& numbered() const { return *this; }
  // Throws E_DATA_TOKEN_RANGE if a value fed to `input` is not in [0, rows); rows is the number of rows of the
  // embedding table that the input indexes.
  virtual void check_token_range(const std::string& input, int64_t rows) const = 0;
  // Throws E_DATA_LABEL if an integer label is neither `ignore` nor in [0, classes).
  virtual void check_label_range(int64_t classes, int64_t ignore = kIgnoreIndex) const = 0;
  // Like check_label_range, for an additional label of a loss.
  virtual void check_more_labels(const std::string& /*name*/, int64_t /*classes*/, int64_t /*ignore*/) const {}
};

// Returns Batch::valid_items for these labels.
int64_t count_valid(const HostTensor& labels);

}  // namespace amp
