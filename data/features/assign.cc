// Implements assign_features (feature_dataset.h). First, an input with the name of a column takes that column. Then the
// input of integers takes the category codes, and the input of floats takes the numbers, the indicators and the
// remaining codes.
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "data/features/feature_dataset.h"
#include "data/text_dataset.h"

namespace amp {

namespace {

using Kind = FeatureRef::Kind;

std::string plain_name(const std::string& input) { return input.substr(0, input.rfind(":0")); }

// Returns the number of features that an input takes; -1 if it takes any number.
int64_t width_of(const InputSpec& input) {
  if (!input.dims) return -1;
  return input.dims->size() < 2 ? 1 : (*input.dims)[1];
}

class Assignment {
 public:
  Assignment(Features& features, const std::vector<InputSpec>& inputs) : features_(features) {
    for (size_t i = 0; i < features.categories.size(); ++i) left_.push_back({Kind::code, i});
    for (size_t i = 0; i < features.numbers.size(); ++i) left_.push_back({Kind::number, i});
    for (const InputSpec& i : inputs) {
      FeatureInput f{i};
      f.label = text_role(i.name) == TextRole::label;
      if (!f.label && i.dims && i.dims->size() > 2)
        fail(Exit::data, "E_FEATURE_INPUT",
             cat("the model's input '", printable(i.name), "' has ", i.dims->size(), " dimensions, ",
                 to_string(*i.dims), ": a table's row is one"),
             "give tensors: a .safetensors or .npz file; texts: `text_columns`; images: `image_column`");
      out_.push_back(std::move(f));
    }
  }

  std::vector<FeatureInput> run(bool choose_indicators) {
    by_name();
    FeatureInput* const whole = free_input(false);
    FeatureInput* const floating = free_input(true);
    if (whole) take(*whole, Kind::code);
    if (floating) take(*floating, Kind::number);
    if (choose_indicators) choose(floating);
    if (floating) add_indicators(*floating);
    if (floating) take(*floating, Kind::code);
    for (const FeatureInput& f : out_) check_width(f);
    if (!left_.empty()) no_input();
    return std::move(out_);
  }

 private:
  void by_name() {
    for (FeatureInput& f : out_) {
      const auto at = std::find_if(left_.begin(), left_.end(), [&](const FeatureRef& r) {
        return name_of(features_, r) == plain_name(f.input.name);
      });
      if (f.label || at == left_.end() || width_of(f.input) > 1) continue;
      if (at->kind == Kind::number && !is_float(f.input.dtype))
        fail(Exit::data, "E_FEATURE_INPUT",
             cat("the model's input '", printable(f.input.name), "' takes integers, the column is continuous"),
             cat("name it with `categorical` ", printable(name_of(features_, *at))));
      f.features = {*at};
      left_.erase(at);
    }
  }

  // Returns the only input of floats (or of integers) that has no features yet; null if there is none. Throws
  // E_FEATURE_INPUT if there are several.
  FeatureInput* free_input(bool floating) {
    FeatureInput* out = nullptr;
    for (FeatureInput& f : out_) {
      if (f.label || !f.features.empty() || is_float(f.input.dtype) != floating) continue;
      if (out)
        fail(Exit::data, "E_FEATURE_INPUT",
             cat("the model has several inputs of ", floating ? "floats" : "integers", " without a column's name: '",
                 printable(out->input.name), "', '", printable(f.input.name), "'; columns: ", columns()),
             "rename the file's columns to the names of the inputs, or give tensors");
      out = &f;
    }
    return out;
  }

  void take(FeatureInput& f, Kind kind) {
    std::copy_if(left_.begin(), left_.end(), std::back_inserter(f.features),
                 [&](const FeatureRef& r) { return r.kind == kind; });
    std::erase_if(left_, [&](const FeatureRef& r) { return r.kind == kind; });
  }

  void choose(const FeatureInput* floating) {
    const int64_t missing =
        std::count_if(features_.numbers.begin(), features_.numbers.end(), [](const NumberMap& n) { return n.missing; });
    int64_t codes = 0;
    for (const FeatureRef& r : left_) codes += r.kind == Kind::code;
    const int64_t width = floating ? width_of(floating->input) : 0;
    const bool room =
        floating && (width < 0 || width == static_cast<int64_t>(floating->features.size()) + missing + codes);
    for (NumberMap& n : features_.numbers) n.indicator = n.missing && room;
  }

  void add_indicators(FeatureInput& f) const {
    for (size_t i = 0; i < features_.numbers.size(); ++i) {
      if (features_.numbers[i].indicator) f.features.push_back({Kind::indicator, i});
    }
  }

  void check_width(const FeatureInput& f) const {
    if (f.label) return;
    const int64_t width = width_of(f.input), got = static_cast<int64_t>(f.features.size());
    if (got == 0)
      fail(Exit::data, "E_FEATURE_INPUT",
           cat("the model's input '", printable(f.input.name), "' takes ",
               is_float(f.input.dtype) ? "floats" : "integers", ", and no ",
               is_float(f.input.dtype) ? "continuous" : "categorical", " column is left for it"),
           "name columns with `categorical` and `continuous`");
    if (width < 0 || width == got) return;
    int64_t missing = 0;
    for (const FeatureRef& r : f.features) missing += r.kind == Kind::number && features_.numbers[r.index].missing;
    fail(Exit::data, "E_FEATURE_WIDTH",
         cat("the model's input '", printable(f.input.name), "' takes ", width, width == 1 ? " feature" : " features",
             ", the columns give ", got,
             missing ? cat(" (", got + missing, " with an indicator for each column that lacks numbers)")
                     : std::string(),
             ": ", names(f)),
         "choose others with `categorical`, `continuous` and `date`");
  }

  [[noreturn]] void no_input() const {
    const bool codes = left_[0].kind == Kind::code;
    std::vector<std::string> names;
    for (const FeatureRef& r : left_) names.push_back(printable(name_of(features_, r)));
    fail(Exit::data, "E_FEATURE_INPUT",
         cat("the model has no input of ", codes ? "integers or floats" : "floats", " for: ", join(names, ", ")),
         codes ? "leave them out of `categorical`" : "leave them out of `continuous`, or name them with `categorical`");
  }

  std::string names(const FeatureInput& f) const {
    std::vector<std::string> out;
    for (const FeatureRef& r : f.features) out.push_back(printable(name_of(features_, r)));
    return join(out, ", ");
  }
  std::string columns() const {
    std::vector<std::string> out;
    for (const FeatureRef& r : left_) out.push_back(printable(name_of(features_, r)));
    return join(out, ", ");
  }

  Features& features_;
  std::vector<FeatureRef> left_;
  std::vector<FeatureInput> out_;
};

}  // namespace

std::vector<FeatureInput> assign_features(Features& features, const std::vector<InputSpec>& inputs,
                                          bool choose_indicators) {
  return Assignment(features, inputs).run(choose_indicators);
}

std::string name_of(const Features& features, const FeatureRef& ref) {
  if (ref.kind == Kind::code) return features.categories[ref.index].column;
  return features.numbers[ref.index].column + (ref.kind == Kind::indicator ? "_na" : "");
}

std::string describe(const Features& features, const FeatureInput& f) {
  if (f.label) return cat("input '", printable(f.input.name), "' takes the target");
  std::vector<std::string> names;
  for (const FeatureRef& r : f.features) {
    names.push_back(printable(name_of(features, r)));
    if (r.kind == Kind::code)
      names.back() += cat(" (", with_thousands(features.categories[r.index].codes()), " codes)");
  }
  return cat("input '", printable(f.input.name), "' takes ", names.size(), ": ", join(names, ", "));
}

}  // namespace amp
