// Implements datasets from the features of a table. All tensors are computed once; a batch gathers their rows. Codes
// and class labels are checked against the model's sizes before training.
#include "data/features/feature_dataset.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace amp {

namespace {

struct FeatureTensor {
  std::string name;
  HostTensor rows;  // the tensor for all rows of the table
  std::vector<std::string> columns;
};

class FeatureDataset final : public Dataset {
 public:
  FeatureDataset(const FeatureTable& table, FeatureLabels labels)
      : labels_(std::move(labels)), names_(table.table().names()) {
    for (int64_t r = 0; r < table.rows(); ++r) {
      lines_.push_back(table.table().line(r));
      files_.push_back(table.table().file(r));
    }
  }

  void add(FeatureTensor tensor) { tensors_.push_back(std::move(tensor)); }
  void add_label_input(const std::string& name, DType dtype) { label_inputs_.emplace_back(name, dtype); }

  int64_t size() const override { return static_cast<int64_t>(lines_.size()); }
  std::string where(int64_t sample) const override {
    const auto s = static_cast<size_t>(sample);
    return cat(names_.at(static_cast<size_t>(files_.at(s))), ":", lines_[s]);
  }

  Batch batch(std::span<const int64_t> samples) const override {
    Batch b;
    b.rows = static_cast<int64_t>(samples.size());
    b.samples.assign(samples.begin(), samples.end());
    for (const FeatureTensor& t : tensors_) b.inputs[t.name] = gather(t.rows, samples);
    b.labels = labels_of(samples);
    for (const auto& [name, dtype] : label_inputs_) b.inputs[name] = b.labels.cast(dtype);
    b.valid_items = count_valid(b.labels);
    return b;
  }

  HostTensor labels_of(std::span<const int64_t> samples) const override {
    if (labels_.numbers.empty() && labels_.classes.empty()) return {};
    const bool classes = !labels_.classes.empty();
    HostTensor out = HostTensor::empty(classes ? DType::i64 : DType::f32, {static_cast<int64_t>(samples.size())});
    for (size_t i = 0; i < samples.size(); ++i) {
      const auto s = static_cast<size_t>(samples[i]);
      if (classes) {
        out.as_mutable<int64_t>()[i] = labels_.classes.at(s);
      } else {
        out.as_mutable<float>()[i] = labels_.numbers.at(s);
      }
    }
    return out;
  }

  void check_token_range(const std::string& input, int64_t rows) const override {
    for (const FeatureTensor& t : tensors_) {
      if (t.name != input || is_float(t.rows.dtype())) continue;
      const std::vector<int64_t> ids = t.rows.to_ints();
      const auto beyond = std::find_if(ids.begin(), ids.end(), [&](int64_t v) { return v >= rows; });
      if (beyond == ids.end()) continue;
      const auto i = static_cast<size_t>(beyond - ids.begin()), width = t.columns.size();
      fail(Exit::data, "E_DATA_TOKEN_RANGE",
           cat(where(static_cast<int64_t>(i / width)), ": column '", printable(t.columns[i % width]), "' has the code ",
               *beyond, ", the table that the model's input '", printable(input), "' looks up has ", rows, " rows"),
           "the model was made for other data");
    }
  }

  void check_label_range(int64_t classes, int64_t) const override {
    for (size_t s = 0; s < labels_.classes.size(); ++s) {
      if (labels_.classes[s] < classes) continue;
      fail(Exit::data, "E_DATA_LABEL",
           cat(where(static_cast<int64_t>(s)), ": the target '",
               printable(labels_.names[static_cast<size_t>(labels_.classes[s])]), "' is class ", labels_.classes[s],
               ", the model has ", classes, " classes"),
           "train a model with as many outputs as there are classes");
    }
  }

 private:
  static HostTensor gather(const HostTensor& t, std::span<const int64_t> samples) {
    Dims dims = t.dims();
    const int64_t bytes = t.bytes() / dims[0];
    dims[0] = static_cast<int64_t>(samples.size());
    HostTensor out = HostTensor::empty(t.dtype(), std::move(dims));
    auto* to = static_cast<char*>(out.mutable_data());
    for (const int64_t s : samples) {
      check(s >= 0 && s < t.dims()[0], "FeatureDataset: sample out of range");
      std::memcpy(to, static_cast<const char*>(t.data()) + s * bytes, static_cast<size_t>(bytes));
      to += bytes;
    }
    return out;
  }

  FeatureLabels labels_;
  std::vector<std::string> names_;  // names of the files
  std::vector<int64_t> lines_;
  std::vector<int32_t> files_;
  std::vector<FeatureTensor> tensors_;
  std::vector<std::pair<std::string, DType>> label_inputs_;
};

double value_of(const FeatureValues& values, const FeatureRef& ref, size_t row) {
  switch (ref.kind) {
    case FeatureRef::Kind::code:
      return static_cast<double>(values.codes[ref.index][row]);
    case FeatureRef::Kind::indicator:
      return values.missing[ref.index][row];
    case FeatureRef::Kind::number:
      break;
  }
  return double{values.numbers[ref.index][row]};
}

FeatureTensor tensor_of(const FeatureInput& f, const Features& features, const FeatureValues& values, int64_t rows) {
  const size_t width = f.features.size();
  FeatureTensor out{f.input.name, {}, {}};
  for (const FeatureRef& r : f.features) out.columns.push_back(name_of(features, r));
  const bool flat = f.input.dims && f.input.dims->size() == 1;
  const bool floating = is_float(f.input.dtype);
  const DType made = floating ? DType::f32 : DType::i64;
  HostTensor x = HostTensor::empty(made, flat ? Dims{rows} : Dims{rows, static_cast<int64_t>(width)});
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    for (size_t c = 0; c < width; ++c) {
      const double v = value_of(values, f.features[c], r);
      if (floating) {
        x.as_mutable<float>()[r * width + c] = static_cast<float>(v);
      } else {
        x.as_mutable<int64_t>()[r * width + c] = static_cast<int64_t>(v);
      }
    }
  }
  out.rows = made == f.input.dtype ? std::move(x) : x.cast(f.input.dtype);
  return out;
}

}  // namespace

std::unique_ptr<Dataset> make_feature_dataset(const FeatureTable& table, const Features& features,
                                              const FeatureValues& values, const std::vector<FeatureInput>& inputs,
                                              FeatureLabels labels) {
  auto data = std::make_unique<FeatureDataset>(table, std::move(labels));
  for (const FeatureInput& f : inputs) {
    if (f.label) {
      data->add_label_input(f.input.name, f.input.dtype);
    } else {
      data->add(tensor_of(f, features, values, table.rows()));
    }
  }
  return data;
}

std::unique_ptr<Dataset> make_label_dataset(const FeatureTable& table, FeatureLabels labels) {
  return std::make_unique<FeatureDataset>(table, std::move(labels));
}

}  // namespace amp
