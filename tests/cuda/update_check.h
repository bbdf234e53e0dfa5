// The device's update against the CPU's optimizer, loss scaler and schedule: the same decisions at every step, the same
// weights, moments, EMA and 16-bit copies, through overflows, for every method and way of clipping.
#pragma once

#include <string>
#include <vector>

#include "backend/device.h"
#include "backend/update.h"
#include "precision/loss_scaler.h"

namespace amp::test {

struct UpdateSetting {
  std::string name;
  OptimizerConfig optimizer;
  LossScaleConfig scale;
  bool groups = false;  // tensors that wait, a clipping norm of their own
  bool cycled = false;  // momentum moves
};

std::vector<UpdateSetting> update_settings();
void check_update(Device& device, const UpdateSetting& s);

}  // namespace amp::test
