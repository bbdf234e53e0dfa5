// Gradient noise (Neelakantan et al. 2015, arXiv:1511.06807) for CPU and GPU. It has a normal distribution with
// variance eta / (1 + t)^0.55 after t applied steps. The random number is the Philox hash of seed, step and element, so
// it does not depend on the order of evaluation.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/philox.h"

namespace amp {

HD inline double noise_deviation(double eta, int64_t applied) {
  return sqrt(eta / pow(1 + static_cast<double>(applied), 0.55));
}

HD inline double gradient_noise(uint64_t seed, int64_t applied, int64_t element, double deviation) {
  constexpr uint64_t kSite = 0x4e6f6973;  // RNG stream id: "Nois"
  constexpr double kPi = 3.14159265358979323846;
  // Box-Muller transform: two normal numbers from two words.
  const PhiloxBlock r = philox(seed, kSite << 32 ^ static_cast<uint64_t>(applied), static_cast<uint64_t>(element) / 2);
  const double u = 1 - static_cast<double>(philox_uniform(r.v[0]));
  const double angle = 2 * kPi * static_cast<double>(philox_uniform(r.v[1]));
  return deviation * sqrt(-2 * log(u)) * (element % 2 == 0 ? cos(angle) : sin(angle));
}

}  // namespace amp
