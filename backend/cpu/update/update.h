// DeviceUpdate on the CPU (backend/update.h): a step is finished when apply() returns.
#pragma once

#include <memory>

#include "backend/update.h"

namespace amp {

std::unique_ptr<DeviceUpdate> make_cpu_update(const UpdateSpec& spec);

}  // namespace amp
