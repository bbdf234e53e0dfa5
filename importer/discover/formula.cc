#include "importer/discover/formula.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "importer/discover/tensor_values.h"

namespace amp {
namespace {

constexpr double kPi = 3.14159265358979323846;

bool whole_number(double x) { return x >= 0.5 && std::fabs(x - std::round(x)) <= 2e-7 * x; }

bool few_digits(double x) {
  const double digits = std::floor(std::log10(x));
  return whole_number(x * std::pow(10.0, 4 - digits));
}

bool small_fraction(double x) {
  if (x > 1) x = 1 / x;
  for (int above = 1; above <= 32; ++above) {
    if (above / x <= 4096 && whole_number(above / x)) return true;
  }
  return false;
}

// Constants of SELU, and of approximations of erf and GELU.
constexpr std::array kKnown = {1.6732632423543772, 1.0507009873554805, 1.7580993408473766, 0.3275911,  0.254829592,
                               0.284496736,        1.421413741,        1.453152027,        1.061405429};

}  // namespace

bool from_formula(const HostTensor& scalar) {
  if (size_of(scalar.dtype()) < 4) return true;
  const double x = std::fabs(TensorValues(scalar).at(0));
  if (!std::isfinite(x) || x == 0) return true;
  for (const double known : kKnown) {
    if (std::fabs(x - known) <= 2e-7 * known) return true;
  }
  const double square = x * x;
  std::array forms = {x,       square,  square * square, std::exp(std::min(x, 60.0)), std::exp(std::min(1 / x, 60.0)),
                      x * kPi, x / kPi, square * kPi};
  if (std::any_of(forms.begin(), forms.end(), small_fraction)) return true;
  return few_digits(x) || few_digits(1 / x) || few_digits(square) || few_digits(forms[3]) || few_digits(forms[4]);
}

}  // namespace amp
