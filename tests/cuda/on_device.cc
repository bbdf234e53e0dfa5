#include "tests/cuda/on_device.h"

#include <algorithm>
#include <cmath>

#include "backend/interpreter.h"
#include "tests/ops/one_node.h"

namespace amp::test {

namespace {
const Node& add(Graph& g, const char* op, const std::vector<HostTensor>& in, const Attrs& attrs) {
  std::vector<ValueId> values;
  for (const HostTensor& t : in) values.push_back(t ? g.add_input("in", t.dtype(), t.dims()) : ValueId{});
  return g.node(g.add_node(core_op(op), values, attrs, {}));
}
}  // namespace

OnDevice::OnDevice(cuda::EmulatedDevice& d, const char* op, const std::vector<HostTensor>& in, const Attrs& attrs,
                   std::optional<DType> out, const std::function<void(const std::vector<Tensor>&)>& placed)
    : d_(d) {
  const Node& node = add(graph_, op, in, attrs);
  for (const HostTensor& t : in) in_.push_back(t ? Tensor{place(t.bytes()), t.dtype(), t.dims()} : Tensor{});
  for (const ValueId v : node.out) {
    if (out && is_float(graph_.value(v).dtype)) graph_.set_dtype(v, *out);
    out_.push_back(Tensor{nullptr, graph_.value(v).dtype, graph_.value(v).dims});
    out_.back().data = place(out_.back().bytes());
  }
  KernelArgs a{node, in_, out_, nullptr, &state_, &d_};
  workspace_ = d_.workspace(graph_, node);
  if (workspace_ > 0) a.workspace = place(workspace_);
  if (placed) placed(in_);
  kernel_ = find_kernel(DeviceKind::cuda, op)(a);
}

std::vector<HostTensor> OnDevice::run(const std::vector<HostTensor>& in) {
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i]) d_.upload(in_[i].data, in[i].data(), in[i].bytes());
  }
  kernel_();
  for (const Guarded& m : memory_) m.check();
  std::vector<HostTensor> out;
  for (const Tensor& t : out_) out.push_back(d_.read(t));
  return out;
}

void* OnDevice::place(int64_t bytes) {
  memory_.emplace_back(DType::u8, Dims{bytes});
  d_.fill(memory_.back().tensor.data, 0xff, bytes);
  return memory_.back().tensor.data;
}

std::vector<HostTensor> on_cpu(const char* op, const std::vector<HostTensor>& in, const Attrs& attrs) {
  std::vector<HostTensor> wide;
  for (const HostTensor& t : in) wide.push_back(t && is_float(t.dtype()) ? t.cast(DType::f64) : t);
  Graph g;
  std::vector<std::pair<DType, Dims>> shapes;
  for (const ValueId v : add(g, op, wide, attrs).out) shapes.emplace_back(g.value(v).dtype, g.value(v).dims);
  return evaluate_node(core_op(op), wide, attrs, shapes);
}

HostTensor draw(const Dims& dims, uint64_t seed, DType type) { return random_tensor(dims, seed).cast(type); }

double worst(const HostTensor& got, const HostTensor& want) {
  const std::vector<double> x = got.to_doubles(), y = want.to_doubles();
  double d = 0, scale = 1e-30;
  for (size_t i = 0; i < y.size(); ++i) {
    d = std::max(d, std::isnan(x[i]) ? INFINITY : std::abs(x[i] - y[i]));
    scale = std::max(scale, std::abs(y[i]));
  }
  return d / scale;
}

}  // namespace amp::test
