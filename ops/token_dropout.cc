// TokenDropout: Dropout (ops/dropout.cc) of packed tokens. Inputs: x, tokens int64 (T); x has T equal parts, one per
// token. Token i is at position s = tokens[i] % length of sample b = tokens[i] / length, where length is an attribute.
// Its elements are dropped as Dropout would drop them at (b, s) of a tensor (samples, length, ..).
#include "backend/rows.h"
#include "ops/dropout.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

template <class T>
Kernel typed(const KernelArgs& a) {
  const Tensor x = a.in[0], y = a.out[0];
  if (x.numel() == 0) return [] {};
  const int64_t* tokens = a.in[1].as<int64_t>();
  const int64_t n = a.in[1].numel(), unit = x.numel() / n, length = a.attrs().i("length", 1);
  const DropoutBits bits = dropout_bits(a.attrs());
  const RunState* state = a.state;
  return [=] {
    parallel_ranges(n, 16384 / unit + 1, [&](int64_t b, int64_t e) {
      T* const sx = thread_scratch<T>(unit, 0);
      T* const sy = thread_scratch<T>(unit, 1);
      T* const factor = thread_scratch<T>(unit, 2);
      for (int64_t i = b; i < e; ++i) {
        const T* p = load_row(x, i, unit, sx);
        T* q = row_buffer(y, i, unit, sy);
        dropout_factors(bits, *state, tokens[i] / length, tokens[i] % length * unit, unit, factor);
        simd([&]() AMP_INLINE {
          for (int64_t k = 0; k < unit; ++k) q[k] = factor[k] == T(0) ? T(0) : p[k] * factor[k];
        });
        store_row(q, y, i, unit);
      }
    });
  };
}
Kernel kernel(const KernelArgs& a) { return in_double(a) ? typed<double>(a) : typed<float>(a); }

void infer(InferCtx& c) {
  if (numel(c.in(1).dims) == 0 || numel(c.in(0).dims) % numel(c.in(1).dims) != 0) {
    fail(Exit::model, "E_SHAPE",
         cat("dropout of ", to_string(c.in(0).dims), " by ", to_string(c.in(1).dims), " tokens"));
  }
  infer_same(c);
}
void grad(GradBuilder& g) { g.add_grad(0, g.op("TokenDropout", {g.dy(0), g.in(1)}, g.attrs())); }

OpDef def() {
  OpDef d;
  d.name = "TokenDropout";
  d.infer = infer;
  d.gradient = grad;
  d.effect = Effect::random;
  d.min_inputs = 2;
  return d;
}
const RegisterOp op{def()};
const RegisterKernel cpu{DeviceKind::cpu, "TokenDropout", kernel};

}  // namespace
}  // namespace amp
