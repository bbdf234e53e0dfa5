#include "run/evaluate/gradient_tensors.h"

#include <cmath>

namespace amp {

template <class T>
static HostTensor typed_transposed(const HostTensor& t) {
  Dims dims = t.dims();
  const int64_t rows = dims.at(dims.size() - 2), cols = dims.back();
  std::swap(dims[dims.size() - 2], dims.back());
  HostTensor out = HostTensor::empty(t.dtype(), std::move(dims));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) out.as_mutable<T>()[j * rows + i] = t.as<T>()[i * cols + j];
  }
  return out;
}
HostTensor transposed(const HostTensor& t) {
  return t.dtype() == DType::f64 ? typed_transposed<double>(t) : typed_transposed<float>(t);
}

int first_bad_slot(const Session& session) {
  for (size_t s = 0; s < session.table().size(); ++s) {
    if (!session.has_grad(static_cast<int>(s))) continue;
    for (const double x : session.grad(static_cast<int>(s)).to_doubles()) {
      if (!std::isfinite(x)) return static_cast<int>(s);
    }
  }
  return -1;
}

static HostTensor unscaled(const HostTensor& grad, double scale) {
  if (scale == 1) return grad;
  HostTensor out = HostTensor::empty(DType::f32, grad.dims());  // a new tensor, because several names may share a slot
  for (int64_t i = 0; i < grad.numel(); ++i)
    out.as_mutable<float>()[i] = static_cast<float>(grad.as<float>()[i] / scale);
  return out;
}

std::vector<NamedTensor> gradient_tensors(const Session& session, double scale) {
  const SourceGraph& g = session.source();
  std::vector<NamedTensor> out;
  for (size_t i = 0; i < g.values.size(); ++i) {
    const SourceValue& v = g.values[i];
    if (v.kind != SourceKind::parameter || v.tied_axis >= 0) continue;  // tied rows share one gradient
    const int slot = session.table().slot_of[i];
    if (!session.has_grad(slot)) continue;
    const HostTensor grad = unscaled(session.grad(slot).cast(DType::f32), scale);
    out.push_back({v.name, v.tied_transposed ? transposed(grad) : grad.reshaped(v.data.dims())});
  }
  return out;
}

}  // namespace amp
