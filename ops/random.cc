// RandomUniform, RandomNormal and their Like forms (ONNX 1+), Bernoulli (15); files use them for dropout and stochastic
// depth. Core RandomUniform(low, high) {dims, site}: Philox(seed; site, step, micro-batch, element), so a resumed run
// gets the same numbers. With the attribute `rows`, the numbers of a row depend on the row's sample in the accumulation
// step, as in Dropout (ops/dropout.cc). The site is a hash of the node's name; the seed in the file is ignored. The
// operators have no gradient.
#include <cmath>

#include "backend/rows.h"
#include "base/philox.h"
#include "ops/compose.h"
#include "ops/dropout.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

void infer_uniform(InferCtx& c) { c.out(c.in(0).dtype, c.attrs.ints("dims")); }

Kernel uniform(const KernelArgs& a) {
  const Tensor low = a.in[0], high = a.in[1], y = a.out[0];
  const uint32_t site = static_cast<uint32_t>(a.attrs().i("site", 0));
  const int64_t rows = a.attrs().i("rows", 0), per_row = rows > 0 ? y.numel() / rows : 0;
  const RunState* state = a.state;
  return [=] {
    double lo, hi;
    convert(low.dtype, low.data, DType::f64, &lo, 1);
    convert(high.dtype, high.data, DType::f64, &hi, 1);
    const int64_t n = y.numel();
    parallel_ranges((n + 1023) / 1024, 16, [&](int64_t begin, int64_t end) {
      double block[1024];
      for (int64_t k = begin; k < end; ++k) {
        const int64_t at = k * 1024, m = std::min<int64_t>(1024, n - at);
        for (int64_t i = 0; rows > 0 && i < m; ++i) {
          const int64_t row = (at + i) / per_row, e = (at + i) % per_row;
          block[i] =
              lo + (hi - lo) * static_cast<double>(philox_uniform(dropout_words(*state, row, e / 4, site).word(e)));
        }
        for (int64_t i = 0; rows == 0 && i < m; i += 4) {
          const PhiloxBlock bits =
              philox4x32({{static_cast<uint32_t>((at + i) / 4), static_cast<uint32_t>(state->samples_before),
                           static_cast<uint32_t>(state->step), site}},
                         static_cast<uint32_t>(state->seed), static_cast<uint32_t>(state->seed >> 32));
          for (int64_t j = i; j < std::min(m, i + 4); ++j)
            block[j] = lo + (hi - lo) * static_cast<double>(philox_uniform(bits.v[j - i]));
        }
        convert(DType::f64, block, y.dtype, static_cast<char*>(y.data) + at * size_of(y.dtype), m);
      }
    });
  };
}

OpDef def() {
  OpDef d;
  d.name = "RandomUniform";
  d.infer = infer_uniform;
  d.min_inputs = 2;
  d.not_differentiable = true;
  d.effect = Effect::random;
  return d;
}
const RegisterOp op{def()};
const RegisterKernel cpu{DeviceKind::cpu, "RandomUniform", uniform};

uint32_t site_of(const std::string& node, uint32_t which) {  // computes FNV-1a
  uint32_t h = 2166136261u + which;
  for (const char c : node) h = (h ^ static_cast<uint8_t>(c)) * 16777619u;
  return h;
}

Dims shape_of(const Lowering& l) {
  return l.node.op.find("Like") == std::string::npos ? l.attrs.ints("shape") : l.dims(0);
}
// Throws unless the attribute dtype is a floating-point type. Its numbers are ONNX's: 1 float, 10 float16, 11 double,
// 16 bfloat16.
void need_float(const Lowering& l) {
  const int64_t t = l.attrs.i("dtype", 0);
  if (t != 0 && t != 1 && t != 10 && t != 11 && t != 16) l.unsupported(cat("element type ", t, " of TensorProto"));
  if (t == 0 && l.n_in() > 0 && !is_float(l.b.dtype(l.in(0)))) l.unsupported("random integers");
}
ValueId draw(const Lowering& l, double low, double high, uint32_t which) {
  const DType f = l.float_type();
  return l.b.op("RandomUniform", {l.b.scalar(low, f), l.b.scalar(high, f)},
                {{"dims", shape_of(l)}, {"site", static_cast<int64_t>(site_of(l.node.name, which))}});
}

void lower_uniform(Lowering& l) {
  need_float(l);
  l.out(0, draw(l, l.attrs.f("low", 0), l.attrs.f("high", 1), 0));
}
// Lowers RandomNormal by the Box-Muller transform: sqrt(-2 log u) cos(2 pi v), u in (0, 1].
void lower_normal(Lowering& l) {
  need_float(l);
  Builder& b = l.b;
  const ValueId radius = b.op("Sqrt", {scaled(b, b.op("Log", {draw(l, 1, 0, 0)}), -2)});
  const ValueId z = mul(b, radius, b.op("Cos", {draw(l, 0, 6.283185307179586, 1)}));
  l.out(0, shifted(b, scaled(b, z, l.attrs.f("scale", 1)), l.attrs.f("mean", 0)));
}

// Lowers Bernoulli: an element is 1 with the probability in the input's element. (The comparison in the function body
// of the ONNX standard is reversed.)
void lower_bernoulli(Lowering& l) {
  Builder& b = l.b;
  const int64_t t = l.attrs.i("dtype", 0);
  const DType to = t == 0 || t == 1 || t == 10 || t == 11 || t == 16 ? l.float_type()
                   : t == 7                                          ? DType::i64
                   : t == 6                                          ? DType::i32
                                                                     : DType::boolean;
  if (to == DType::boolean && t != 9) l.unsupported(cat("element type ", t, " of TensorProto"));
  const DType f = l.float_type();
  const ValueId u = b.op("RandomUniform", {b.scalar(0, f), b.scalar(1, f)},
                         {{"dims", l.dims(0)}, {"site", static_cast<int64_t>(site_of(l.node.name, 0))}});
  l.out(0, b.cast(b.op("Less", {u, l.in(0)}), to));
}

const RegisterOnnx onnx[] = {
    RegisterOnnx{{"Bernoulli", lower_bernoulli, 15, {}}},

    RegisterOnnx{{"RandomUniform", lower_uniform, 1, {}}}, RegisterOnnx{{"RandomUniformLike", lower_uniform, 1, {}}},
    RegisterOnnx{{"RandomNormal", lower_normal, 1, {}}}, RegisterOnnx{{"RandomNormalLike", lower_normal, 1, {}}}};

}  // namespace
}  // namespace amp
