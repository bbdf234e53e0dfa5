#include "backend/broadcast_loop.h"

namespace amp {

static Dims strides_in(const Dims& of, const Dims& dims) {
  Dims s(dims.size(), 0);
  int64_t running = 1;
  for (size_t d = 0; d < of.size(); ++d) {
    const int64_t n = of[of.size() - 1 - d];
    s[dims.size() - 1 - d] = n == 1 ? 0 : running;
    running *= n;
  }
  return s;
}

BroadcastLoop make_broadcast_loop(const Dims& dims, const std::vector<Dims>& operands) {
  BroadcastLoop w;
  std::vector<Dims> strides;
  for (const Dims& d : operands) strides.push_back(strides_in(d, dims));
  w.stride.resize(operands.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    bool same = !w.extent.empty();
    for (size_t k = 0; same && k < operands.size(); ++k) same = w.stride[k].back() == strides[k][d] * dims[d];
    if (same)
      w.extent.back() *= dims[d];
    else
      w.extent.push_back(dims[d]);
    for (size_t k = 0; k < operands.size(); ++k) {
      if (same)
        w.stride[k].back() = strides[k][d];
      else
        w.stride[k].push_back(strides[k][d]);
    }
  }
  w.inner_stride.assign(operands.size(), 0);
  if (w.extent.empty()) return w;
  w.inner = w.extent.back();
  w.extent.pop_back();
  for (size_t k = 0; k < operands.size(); ++k) {
    w.inner_stride[k] = w.stride[k].back();
    w.stride[k].pop_back();
  }
  w.outer = numel(w.extent);
  return w;
}

bool BroadcastLoop::full(size_t operand) const {
  if (inner_stride[operand] == 0 && inner > 1) return false;
  int64_t running = inner;
  for (size_t d = extent.size(); d-- > 0; running *= extent[d]) {
    if (stride[operand][d] != running) return false;
  }
  return true;
}

}  // namespace amp
