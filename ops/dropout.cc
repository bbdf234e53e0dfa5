// Dropout: y = x * keep / (1 - ratio), keep ~ Bernoulli(1 - ratio). ONNX 7+. Only nodes that training has inserted
// (attribute `site`) drop elements; Dropout nodes of the file are the identity. The mask is Philox(seed; site, step,
// row, element of the row). It is computed again in backward instead of being stored. A row is the part of the tensor
// that belongs to one sample; the attribute `rows` is the number of samples in the micro-batch. Rows are numbered over
// the accumulation step: the first row of a micro-batch is RunState::samples_before. So the bits do not depend on the
// division into micro-batches, if samples are outermost and have the same padding.
#include "ops/dropout.h"

#include "backend/cpu/dropout_lanes.h"
#include "backend/rows.h"
#include "ops/elementwise_op.h"

namespace amp {

void dropout_factors(const DropoutBits& bits, const RunState& state, int64_t row, int64_t first, int64_t n,
                     float* factor) {
  constexpr int64_t groups = cpu::DropoutLanes::kGroups, step = 4 * groups;
  cpu::DropoutLanes lanes{
      {{0, static_cast<uint32_t>(state.samples_before + row), static_cast<uint32_t>(state.step), bits.site}},
      static_cast<uint32_t>(state.seed),
      static_cast<uint32_t>(state.seed >> 32),
      bits.threshold,
      static_cast<float>(bits.scale)};
  const int64_t end = first + n;
  for (int64_t at = first / 4 * 4; at < end;) {
    lanes.counter.v[0] = static_cast<uint32_t>(at / 4);
    const int64_t whole = at < first ? 0 : (end - at) / step;
    if (whole > 0) {
      lanes.write(whole * groups, factor + (at - first));
      at += whole * step;
      continue;
    }
    float part[step];
    lanes.write(groups, part);
    const int64_t begin = std::max(at, first), stop = std::min(at + step, end);
    std::copy(part + (begin - at), part + (stop - at), factor + (begin - first));
    at = stop;
  }
}

namespace {

template <class T>
Kernel typed_dropout(const KernelArgs& a) {
  const Tensor x = a.in[0], y = a.out[0];
  const RunState* state = a.state;
  const int64_t n = x.numel();
  const DropoutShape shape(a.attrs(), n);
  return [=] {
    parallel_ranges((n + 1023) / 1024, 16, [&](int64_t b, int64_t e) {
      T sx[1024], sy[1024];
      for (int64_t block = b; block < e; ++block) {
        const int64_t at = block * 1024, m = std::min<int64_t>(1024, n - at);
        const T* p = elementwise_detail::load<T>(x, at, m, sx);
        dropout_span(shape, *state, at, m, p, sy);
        convert(DTypeOf<T>::value, sy, y.dtype, static_cast<char*>(y.data) + at * size_of(y.dtype), m);
      }
    });
  };
}
Kernel kernel(const KernelArgs& a) { return in_double(a) ? typed_dropout<double>(a) : typed_dropout<float>(a); }
void grad(GradBuilder& g) { g.add_grad(0, g.op("Dropout", {g.dy(0)}, g.attrs())); }

OpDef def() {
  OpDef d;
  d.name = "Dropout";
  d.infer = infer_same;
  d.gradient = grad;
  d.effect = Effect::random;
  return d;
}
const RegisterOp op{def()};
const RegisterKernel cpu{DeviceKind::cpu, "Dropout", kernel};

// Returns the number of samples of the batch to which the graph is bound. It is the largest dimension 0 of the inputs,
// because an input without a batch dimension may be shorter.
int64_t samples(const BindOptions& o) {
  int64_t rows = 1;
  for (const auto& [name, dims] : o.input_dims) rows = std::max(rows, dims.empty() ? 1 : dims[0]);
  return rows;
}

void lower_dropout(Lowering& l) {
  Builder& b = l.b;
  const double ratio = l.attrs.f("ratio", 0.5);
  if (l.options.train && l.attrs.has("site") && ratio > 0) {
    return l.out(0, b.op("Dropout", {l.in(0)},
                         {{"ratio", ratio}, {"site", l.attrs.i("site", 0)}, {"rows", samples(l.options)}}));
  }
  l.out(0, l.in(0));
  if (l.wanted(1)) l.out(1, b.expand(b.scalar(1, DType::boolean), l.dims(0)));
}
const RegisterOnnx onnx{{"Dropout", lower_dropout, 7, {}}};

}  // namespace
}  // namespace amp
