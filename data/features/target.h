// TargetTransform: converts target values (regression labels) between the units of the data and those that the model is
// trained on, such as their logarithm.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

namespace amp {

enum class TargetForm : uint8_t { plain, log, log1p, standard };

struct TargetTransform {
  TargetForm form = TargetForm::plain;
  double mean = 0, scale = 1;  // used by `standard`

  double forward(double y) const {
    switch (form) {
      case TargetForm::log:
        return std::log(y);
      case TargetForm::log1p:
        return std::log1p(y);
      case TargetForm::standard:
        return (y - mean) / scale;
      case TargetForm::plain:
        break;
    }
    return y;
  }
  double inverse(double x) const {
    switch (form) {
      case TargetForm::log:
        return std::exp(x);
      case TargetForm::log1p:
        return std::expm1(x);
      case TargetForm::standard:
        return x * scale + mean;
      case TargetForm::plain:
        break;
    }
    return x;
  }
  bool takes(double y) const {  // returns whether y is in the transform's domain
    return form == TargetForm::log ? y > 0 : form == TargetForm::log1p ? y > -1 : true;
  }
};

}  // namespace amp
