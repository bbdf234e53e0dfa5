// Implements datasets from tensors that already have the form of the graph's inputs. Names, shapes, kinds of numbers
// (integer or float) and finite values are checked when the dataset is made, so that training fails early.
#include "data/tensor_dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace amp {

int64_t count_valid(const HostTensor& labels) {
  if (!labels) return 0;
  if (is_float(labels.dtype())) return labels.numel();
  const HostTensor ids = labels.cast(DType::i64);
  return labels.numel() - std::count(ids.as<int64_t>(), ids.as<int64_t>() + ids.numel(), kIgnoreIndex);
}

namespace {

void check_input(const std::string& file_name, const InputSpec& input, DType dtype, const Dims& dims) {
  const bool same_kind = is_float(dtype) == is_float(input.dtype) || is_float(input.dtype);
  bool same_shape = !input.dims || input.dims->size() == dims.size();
  for (size_t d = 1; same_shape && input.dims && d < dims.size(); ++d) {
    // Dimension 0 is the batch. The dataset may have a different number of rows.
    if ((*input.dims)[d] >= 0 && (*input.dims)[d] != dims[d]) same_shape = false;
  }
  if (same_kind && same_shape) return;
  fail(Exit::data, "E_DATA_SHAPE",
       cat("'", printable(file_name), "': tensor '", printable(input.name), "' is ", name_of(dtype), " ",
           to_string(dims), ", the graph's input is ", name_of(input.dtype),
           input.dims ? " " + to_string(*input.dims) : ""),
       "-1 means any size");
}

class TensorDataset final : public Dataset {
 public:
  TensorDataset(const std::vector<NamedTensor>& tensors, const std::string& file_name,
                const std::vector<InputSpec>& inputs, const TensorOptions& options)
      : name_(printable(file_name)) {
    for (const InputSpec& i : inputs) {
      const HostTensor& t = source_of(tensors, i, options.label);
      check_input(name_, i, t.dtype(), t.dims());
      columns_.push_back({i.name, t.cast(i.dtype)});
      if (is_float(i.dtype)) ranges_[i.name] = range_of(t);
    }
    if (const HostTensor* label = find_tensor(tensors, options.label)) label_ = *label;
    for (const std::string& l : options.more_labels) more_.push_back({l, find(tensors, l, "the loss's label")});
    std::vector<const HostTensor*> all;
    for (const NamedTensor& c : columns_) all.push_back(&c.tensor);
    for (const NamedTensor& l : more_) all.push_back(&l.tensor);
    if (label_) all.push_back(&label_);
    if (all.empty())
      fail(Exit::data, "E_DATA_EMPTY", cat("'", name_, "' has neither a graph input nor a label"),
           "name its tensors after the graph's inputs, and label");
    if (labels_items(options.rows_per_item)) group_ = options.rows_per_item;
    for (const HostTensor* t : all) {
      const bool grouped = t != &label_ && group_ > 1;
      const int64_t rows = t->rank() > 0 ? t->dims()[0] / (grouped ? group_ : 1) : -1;
      if (t == all[0]) rows_ = rows;
      if (rows != rows_ || rows < 0) whole_ = true;
    }
    if (!whole_ && rows_ == 0)
      fail(Exit::data, "E_DATA_EMPTY", cat("'", name_, "' has no rows: its tensors are [0, ...]"),
           "write at least one row");
    if (rows_ <= options.batch_size) whole_ = true;
    if (options.allow_nonfinite) return;
    for (const NamedTensor& c : columns_) check_finite(c.name, c.tensor);
    for (const NamedTensor& l : more_) check_finite(l.name, l.tensor);
    if (label_) check_finite(options.label, label_);
  }

  int64_t size() const override { return whole_ ? 1 : rows_; }
  int64_t rows_per_sample() const override { return whole_ ? 1 : group_; }
  InputRanges input_ranges() const override { return ranges_; }
  std::string where(int64_t sample) const override { return whole_ ? name_ : cat(name_, ": row ", sample); }

  Batch batch(std::span<const int64_t> samples) const override {
    Batch b;
    for (const NamedTensor& c : columns_) b.inputs[c.name] = whole_ ? c.tensor : gather(c.tensor, samples, group_);
    if (label_) b.labels = whole_ ? label_ : gather(label_, samples);
    for (const NamedTensor& l : more_) b.more_labels[l.name] = whole_ ? l.tensor : gather(l.tensor, samples);
    b.rows = !whole_ ? static_cast<int64_t>(samples.size()) : std::max<int64_t>(1, rows_);
    b.valid_items = count_valid(b.labels);
    return b;
  }

  void check_token_range(const std::string& input, int64_t rows) const override {
    const HostTensor* t = find_tensor(columns_, input);
    if (!t || is_float(t->dtype())) return;
    const HostTensor ids = t->cast(DType::i64);
    for (int64_t i = 0; i < ids.numel(); ++i) {
      const int64_t v = ids.as<int64_t>()[i];
      if (v >= 0 && v < rows) continue;
      fail(Exit::data, "E_DATA_TOKEN_RANGE",
           cat("'", name_, "': input '", printable(input), "' has the value ", v, " at ", place(*t, i),
               ", the model's table has ", rows, " rows"),
           "the data was made for another model");
    }
  }

  void check_label_range(int64_t classes, int64_t ignore) const override {
    if (label_) check_ids("label", label_, classes, ignore);
  }

  void check_more_labels(const std::string& name, int64_t classes, int64_t ignore) const override {
    for (const NamedTensor& l : more_) {
      if (l.name == name) check_ids(name, l.tensor, classes, ignore);
    }
  }

 private:
  void check_ids(const std::string& what, const HostTensor& label, int64_t classes, int64_t ignore) const {
    if (is_float(label.dtype())) return;
    const HostTensor ids = label.cast(DType::i64);
    for (int64_t i = 0; i < ids.numel(); ++i) {
      const int64_t v = ids.as<int64_t>()[i];
      if (v == ignore || (v >= 0 && v < classes)) continue;
      fail(Exit::data, "E_DATA_LABEL",
           cat("'", name_, "': the ", printable(what), " at ", place(label, i), " is ", v, ", the model has ", classes,
               " classes: 0 to ", classes - 1, ", or ", ignore, " to ignore"),
           "correct the label; in training, `num_labels` makes a head of more classes");
    }
  }

  // Returns whether each label belongs to `rows` consecutive rows of the inputs: every input has `rows` times as many
  // rows as there are labels.
  bool labels_items(int64_t rows) const {
    if (rows < 2 || !label_ || label_.rank() == 0 || label_.dims()[0] == 0 || !more_.empty()) return false;
    return std::all_of(columns_.begin(), columns_.end(), [&](const NamedTensor& c) {
      return c.tensor.rank() > 0 && c.tensor.dims()[0] == rows * label_.dims()[0];
    });
  }

  const HostTensor& find(const std::vector<NamedTensor>& tensors, const std::string& name, const char* what) const {
    if (const HostTensor* t = find_tensor(tensors, name)) return *t;
    std::vector<std::string> names;
    for (const NamedTensor& n : tensors) names.push_back(printable(n.name));
    const std::string near = nearest(name, names);
    fail(Exit::data, "E_DATA_COLUMN",
         cat("'", name_, "' has no tensor for ", what, " '", printable(name), "'; it has: ", join(names, ", ")),
         near.empty() ? "" : cat("is '", near, "' meant?"));
  }

  const HostTensor& source_of(const std::vector<NamedTensor>& tensors, const InputSpec& input,
                              const std::string& label) const {
    // A model that computes its loss itself has an input for the labels.
    const bool labels = input.name == "labels" || input.name == "target" || input.name == "targets";
    const HostTensor* t = find_tensor(tensors, input.name);
    if (!t && labels) t = find_tensor(tensors, label);
    return t ? *t : find(tensors, input.name, "the graph's input");
  }

  static std::string place(const HostTensor& t, int64_t i) {
    Dims index(t.dims().size());
    for (size_t d = index.size(); d-- > 0; i /= t.dims()[d]) index[d] = i % t.dims()[d];
    return to_string(index);
  }

  void check_finite(const std::string& name, const HostTensor& t) const {
    if (!is_float(t.dtype())) return;
    const HostTensor wide = t.cast(DType::f64);
    for (int64_t i = 0; i < t.numel(); ++i) {
      if (std::isfinite(wide.as<double>()[i])) continue;
      fail(Exit::data, "E_DATA_NONFINITE",
           cat("'", name_, "': tensor '", printable(name), "' holds ", wide.as<double>()[i], " at ", place(t, i)),
           "remove such rows or replace the values");
    }
  }

  // Copies samples into one tensor. group: number of consecutive rows of t per sample.
  static HostTensor gather(const HostTensor& t, std::span<const int64_t> samples, int64_t group = 1) {
    Dims dims = t.dims();
    const int64_t rows = dims[0] / group;
    const int64_t bytes = rows > 0 ? t.bytes() / rows : 0;
    dims[0] = static_cast<int64_t>(samples.size()) * group;
    HostTensor out = HostTensor::empty(t.dtype(), std::move(dims));
    auto* to = static_cast<char*>(out.mutable_data());
    for (const int64_t s : samples) {
      check(s >= 0 && s < rows, "TensorDataset: sample out of range");
      if (bytes > 0) std::memcpy(to, static_cast<const char*>(t.data()) + s * bytes, static_cast<size_t>(bytes));
      to += bytes;
    }
    return out;
  }

  std::string name_;
  std::vector<NamedTensor> columns_;
  InputRanges ranges_;
  HostTensor label_;
  std::vector<NamedTensor> more_;
  int64_t rows_ = 0;   // number of samples
  int64_t group_ = 1;  // number of input rows per sample
  bool whole_ = false;
};

}  // namespace

void check_input_tensor(const std::string& file_name, const std::vector<InputSpec>& inputs, const std::string& name,
                        DType dtype, const Dims& dims) {
  for (const InputSpec& i : inputs) {
    if (i.name == name) check_input(file_name, i, dtype, dims);
  }
}

std::unique_ptr<Dataset> make_tensor_dataset(std::vector<NamedTensor> tensors, const std::string& file_name,
                                             std::vector<InputSpec> inputs, const TensorOptions& options) {
  return std::make_unique<TensorDataset>(tensors, file_name, inputs, options);
}

}  // namespace amp
