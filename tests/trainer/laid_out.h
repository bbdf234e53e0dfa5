// The CPU's optimizer on the spans of a FlatLayout; its state is read by the names of checkpoints.
#pragma once

#include <map>
#include <string>

#include "backend/cpu/update/optimizer.h"
#include "trainer/compile/flat_views.h"

namespace amp::test {

template <class T>
class LaidOut : public Optimizer<T> {
 public:
  LaidOut(const OptimizerConfig& config, const FlatLayout& layout, const T* params)
      : Optimizer<T>(config, update_spans(layout), layout.trained_size(), params), layout_(layout) {}

  const T* ema() { return this->moment(DeviceUpdate::Moment::ema); }
  std::string first_nonfinite(const T* span) const { return amp::first_nonfinite(layout_, span); }
  std::map<std::string, HostTensor> state() {
    std::map<std::string, HostTensor> out;
    for (const auto& [name, which] : kMoments) {
      if (const T* span = this->moment(which)) add_views(layout_, name, span, out);
    }
    return out;
  }
  void load_state(const std::map<std::string, HostTensor>& state, int64_t steps) {
    for (const auto& [name, which] : kMoments) {
      if (T* span = this->moment(which)) copy_views(layout_, name, state, span);
    }
    this->set_steps(steps);
  }

 private:
  using Moment = DeviceUpdate::Moment;
  static constexpr std::pair<const char*, Moment> kMoments[] = {{"m", Moment::m},
                                                                {"v", Moment::v},
                                                                {"u", Moment::u},
                                                                {"slow", Moment::slow},
                                                                {"ema", Moment::ema},
                                                                {"ema 2", DeviceUpdate::average(1)},
                                                                {"ema 3", DeviceUpdate::average(2)},
                                                                {"ema 4", DeviceUpdate::average(3)}};
  FlatLayout layout_;
};

}  // namespace amp::test
