// Compares the device's update with the CPU's optimizer, loss scaler and schedule: equal decisions at every step, equal
// weights, moments, EMA and 16-bit copies, through overflows, for every optimizer and kind of clipping.
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
  bool groups = false;  // tensors with a later first step, and with a separate clipping norm
  bool cycled = false;  // cycled momentum
};

std::vector<UpdateSetting> update_settings();
void check_update(Device& device, const UpdateSetting& s);

}  // namespace amp::test
