#include "backend/kernel.h"

#include <map>

namespace amp {

namespace {
struct Entry {
  PrepareKernel prepare;
  MeasureWorkspace workspace;
};
std::map<std::pair<DeviceKind, std::string>, Entry>& kernels() {
  static std::map<std::pair<DeviceKind, std::string>, Entry> t;
  return t;
}
const Entry* find(DeviceKind device, std::string_view op) {
  const auto it = kernels().find(std::pair(device, std::string(op)));
  return it == kernels().end() ? nullptr : &it->second;
}
}  // namespace

RegisterKernel::RegisterKernel(DeviceKind device, std::string_view op, PrepareKernel prepare,
                               MeasureWorkspace workspace) {
  check(kernels().emplace(std::pair(device, std::string(op)), Entry{prepare, workspace}).second,
        cat("kernel registered twice: ", op));
}

PrepareKernel find_kernel(DeviceKind device, std::string_view op) {
  const Entry* e = find(device, op);
  return e ? e->prepare : nullptr;
}

MeasureWorkspace find_workspace(DeviceKind device, std::string_view op) {
  const Entry* e = find(device, op);
  return e ? e->workspace : nullptr;
}

}  // namespace amp
