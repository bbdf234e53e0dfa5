// Dataset: samples by index, made into batches named by graph input. Datasets are immutable once made, so any number
// of threads may ask for batches. Errors: exit 5, naming the file and line or row.
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

constexpr int64_t kIgnoreIndex = -100;  // a label that counts for nothing

// A graph input that the data must feed.
struct InputSpec {
  std::string name;
  DType dtype = DType::i64;
  std::optional<Dims> dims = {};  // as the graph declares them, -1 for a dynamic one; absent: rank unknown
};

struct AnswerKey;     // data/questions.h
struct SampleGroups;  // data/sample_groups.h

struct Batch {
  std::map<std::string, HostTensor> inputs;
  HostTensor labels;                              // absent when the data has none
  std::map<std::string, HostTensor> more_labels;  // those that a loss asks for under another name
  std::vector<int64_t> samples;                   // of its rows
  int64_t rows = 0;                               // samples; the inputs may have several rows of each
  int64_t valid_items = 0;  // what the loss is normalised by: integer labels other than kIgnoreIndex, all float labels
  int64_t tokens = 0;       // text: tokens before padding; otherwise 0
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual int64_t rows_per_sample() const { return 1; }            // of the inputs, one after the other: a pair has 2
  virtual std::span<const int32_t> lengths() const { return {}; }  // tokens per sample; empty when samples are alike
  // Of samples that go into one batch only with their like: the bucket of each, the one of most work first (0).
  virtual std::span<const int32_t> buckets() const { return {}; }
  // The row of its table that each sample is (a part) of; empty: samples are rows.
  virtual std::span<const int64_t> source_rows() const { return {}; }
  virtual Batch batch(std::span<const int64_t> samples) const = 0;
  virtual HostTensor labels_of(std::span<const int64_t> samples) const { return batch(samples).labels; }
  // As training sees them in that epoch, where chance has a part in them.
  virtual Batch training_batch(std::span<const int64_t> samples, int64_t) const { return batch(samples); }
  // The same samples as evaluation sees them; null where that is no other.
  virtual std::shared_ptr<const Dataset> for_evaluation() const { return nullptr; }
  virtual int64_t cut_samples() const { return 0; }               // of texts: those that --max_seq_len cuts
  virtual const AnswerKey* answers() const { return nullptr; }    // of questions, by which their spans are judged
  virtual const SampleGroups* groups() const { return nullptr; }  // by the samples of a batch; metrics are told apart
  virtual InputRanges input_ranges() const { return {}; }         // of floating inputs, as the file has them
  virtual std::string where(int64_t sample) const = 0;            // "train.csv:17"
  virtual const Dataset& numbered() const { return *this; }       // whose numbers Batch::samples are: not a part's own
  // E_DATA_TOKEN_RANGE when a value fed to `input` is below 0 or not below rows, the size of the table it looks up.
  virtual void check_token_range(const std::string& input, int64_t rows) const = 0;
  // E_DATA_LABEL when an integer label is neither `ignore` nor in [0, classes).
  virtual void check_label_range(int64_t classes, int64_t ignore = kIgnoreIndex) const = 0;
  // The same of a loss's own labels, by name.
  virtual void check_more_labels(const std::string& /*name*/, int64_t /*classes*/, int64_t /*ignore*/) const {}
};

// Number of items the loss counts in labels, as in Batch.
int64_t count_valid(const HostTensor& labels);

}  // namespace amp
