// Draws: the random numbers of one sample's transforms in one epoch. They are a pure function of (seed, epoch, sample),
// so results do not depend on threads, batches or resumed runs.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/philox.h"

namespace amp {

class Draws {
 public:
  Draws(uint64_t seed, int64_t epoch, int64_t sample)
      : seed_(seed), high_(kStream << 32 | static_cast<uint64_t>(epoch)), low_(static_cast<uint64_t>(sample) << 20) {}

  double uniform() {  // returns a number in [0, 1)
    const PhiloxBlock b = next();
    return (static_cast<double>(b.v[0] >> 5) * 67108864.0 + static_cast<double>(b.v[1] >> 6)) / 9007199254740992.0;
  }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  int64_t below(int64_t n) {  // returns an integer in [0, n)
    const PhiloxBlock b = next();
    return static_cast<int64_t>(philox_below(b.v[0], b.v[1], static_cast<uint64_t>(n)));
  }
  bool chance(double p) { return uniform() < p; }
  double normal() {  // returns a standard normal number, by Box-Muller
    const double a = uniform(), b = uniform();
    return std::sqrt(-2 * std::log(1 - a)) * std::cos(6.283185307179586 * b);
  }

 private:
  static constexpr uint64_t kStream = 0x696d67;  // differs from the streams of sampler and split
  PhiloxBlock next() { return philox(seed_, high_, low_++); }
  uint64_t seed_, high_, low_;
};

}  // namespace amp
