// The names of fillings, scalings and target transforms in flags and files.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/features/features.h"

namespace amp {

template <class T>
struct NamesOf {
  std::vector<std::pair<std::string_view, T>> rows;
  std::string name_of(T value) const {
    for (const auto& [name, v] : rows) {
      if (v == value) return std::string(name);
    }
    bug("a form of features without a name");
  }
  T value_of(std::string_view name) const {
    for (const auto& [known, v] : rows) {
      if (known == name) return v;
    }
    fail(Exit::model, "E_FEATURES", cat("no form of features is called '", name, "'"));
  }
  std::vector<std::string_view> names() const {
    std::vector<std::string_view> out;
    for (const auto& [name, v] : rows) out.push_back(name);
    return out;
  }
};

inline const NamesOf<Scaling>& scaling_names() {
  static const NamesOf<Scaling> names{
      {{"standard", Scaling::standard}, {"quantiles", Scaling::quantiles}, {"none", Scaling::none}}};
  return names;
}
inline const NamesOf<Filling>& filling_names() {
  static const NamesOf<Filling> names{{{"median", Filling::median}, {"mean", Filling::mean}}};
  return names;
}
inline const NamesOf<TargetForm>& target_names() {
  static const NamesOf<TargetForm> names{{{"none", TargetForm::plain},
                                          {"log", TargetForm::log},
                                          {"log1p", TargetForm::log1p},
                                          {"standard", TargetForm::standard}}};
  return names;
}

}  // namespace amp
