#include "backend/kernel.h"

#include <map>

namespace amp {

static std::map<std::pair<DeviceKind, std::string>, PrepareKernel>& kernels() {
  static std::map<std::pair<DeviceKind, std::string>, PrepareKernel> t;
  return t;
}

RegisterKernel::RegisterKernel(DeviceKind device, std::string_view op, PrepareKernel prepare) {
  check(kernels().emplace(std::pair(device, std::string(op)), prepare).second, cat("kernel registered twice: ", op));
}

PrepareKernel find_kernel(DeviceKind device, std::string_view op) {
  const auto it = kernels().find(std::pair(device, std::string(op)));
  return it == kernels().end() ? nullptr : it->second;
}

}  // namespace amp
