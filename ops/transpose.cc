// Transpose: ONNX 1+. The CPU kernel merges axes that stay adjacent, copies contiguous runs, and transposes planes in
// 16 x 16 blocks in registers.
#include <algorithm>
#include <numeric>

#include "backend/cpu/gemm/block_transpose.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

void infer_transpose(InferCtx& c) {
  const auto perm = c.attrs.ints("perm");
  Dims out;
  for (const int64_t p : perm) out.push_back(c.in(0).dims.at(static_cast<size_t>(p)));
  c.out(c.in(0).dtype, out);
}

ValueId simplify_transpose(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  const auto perm = a.ints("perm");
  const Value& x = b.value(in[0]);
  // If the dims that are not 1 keep their order, the order in memory does not change, so a reshape suffices.
  std::vector<int64_t> big;
  for (const int64_t p : perm) {
    if (x.dims[static_cast<size_t>(p)] != 1) big.push_back(p);
  }
  if (std::is_sorted(big.begin(), big.end())) {
    Dims out;
    for (const int64_t p : perm) out.push_back(x.dims[static_cast<size_t>(p)]);
    return b.reshape(in[0], out);
  }
  if (x.producer && b.graph().node(x.producer).op->name == "Transpose") {
    const Node& before = b.graph().node(x.producer);
    const auto first = before.attrs.ints("perm");
    std::vector<int64_t> both;
    for (const int64_t p : perm) both.push_back(first[static_cast<size_t>(p)]);
    return b.transpose(before.in[0], both);
  }
  return {};
}

void grad_transpose(GradBuilder& g) {
  const auto perm = g.attrs().ints("perm");
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  g.add_grad(0, g.b.transpose(g.dy(0), inverse));
}

// Sets out[i * cols + j] = from[i + j * stride] for `rows` by `cols` elements. Full blocks are transposed in registers,
// the remaining edges element by element.
template <class T>
void transpose_plane(const T* from, int64_t stride, T* out, int64_t rows, int64_t cols) {
  int64_t whole_rows = 0, whole_cols = 0;
  if constexpr (sizeof(T) == 4) {
    whole_rows = rows / 16 * 16, whole_cols = cols / 16 * 16;
    cpu::at_level([&]<int Lanes>() AMP_INLINE {
      for (int64_t i = 0; i < whole_rows; i += 16) {
        for (int64_t j = 0; j < whole_cols; j += 16) {
          float* to = reinterpret_cast<float*>(out + i * cols + j);
          cpu::transpose_block<Lanes>(reinterpret_cast<const float*>(from + i + j * stride), stride, 16, 16,
                                      [&](int64_t k) AMP_INLINE { return to + k * cols; });
        }
      }
    });
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i < whole_rows ? whole_cols : 0; j < cols; ++j) out[i * cols + j] = from[i + j * stride];
  }
}

// Visits elements in the order of the output. Reads along the innermost output dim are contiguous, or strided and in
// tiles.
template <class T>
Kernel typed_transpose(const KernelArgs& a) {
  const Tensor x = a.in[0], y = a.out[0];
  const auto perm = a.attrs().ints("perm");
  const Dims xs = row_major_strides(x.dims);
  // Collects the output dims with their input strides. Dims that are contiguous in input and output are merged.
  std::vector<int64_t> n, s;
  for (size_t d = 0; d < perm.size(); ++d) {
    const int64_t extent = y.dims[d], stride = xs[static_cast<size_t>(perm[d])];
    if (extent == 1) continue;
    if (!n.empty() && s.back() == stride * extent) {
      n.back() *= extent;
      s.back() = stride;
    } else {
      n.push_back(extent);
      s.push_back(stride);
    }
  }
  while (n.size() < 2) {
    n.insert(n.begin(), 1);
    s.insert(s.begin(), 0);
  }
  const size_t r = n.size();
  int64_t outer = 1;
  for (size_t d = 0; d + 2 < r; ++d) outer *= n[d];
  const int64_t rows = n[r - 2], cols = n[r - 1], row_stride = s[r - 2], col_stride = s[r - 1];
  return [=] {
    const T* src = static_cast<const T*>(x.data);
    T* dst = static_cast<T*>(y.data);
    constexpr int64_t kTile = 32;
    const int64_t tiles = (rows + kTile - 1) / kTile;
    parallel_ranges(outer * tiles, std::max<int64_t>(1, 32768 / (kTile * cols + 1)), [&](int64_t b, int64_t e) {
      for (int64_t t = b; t < e; ++t) {
        int64_t o = t / tiles, at = 0;
        T* out = dst + o * rows * cols;
        for (size_t d = r - 2; d-- > 0;) {
          at += (o % n[d]) * s[d];
          o /= n[d];
        }
        const int64_t r0 = (t % tiles) * kTile, r1 = std::min(rows, r0 + kTile);
        if (col_stride == 1) {
          for (int64_t i = r0; i < r1; ++i)
            std::memcpy(out + i * cols, src + at + i * row_stride, static_cast<size_t>(cols) * sizeof(T));
          continue;
        }
        if (row_stride == 1) {
          transpose_plane(src + at + r0, col_stride, out + r0 * cols, r1 - r0, cols);
          continue;
        }
        for (int64_t c0 = 0; c0 < cols; c0 += kTile) {
          const int64_t c1 = std::min(cols, c0 + kTile);
          for (int64_t i = r0; i < r1; ++i) {
            for (int64_t j = c0; j < c1; ++j) out[i * cols + j] = src[at + i * row_stride + j * col_stride];
          }
        }
      }
    });
  };
}

Kernel transpose_kernel(const KernelArgs& a) {
  check(a.in[0].dtype == a.out[0].dtype, "Transpose does not convert");
  switch (size_of(a.in[0].dtype)) {
    case 1:
      return typed_transpose<uint8_t>(a);
    case 2:
      return typed_transpose<uint16_t>(a);
    case 4:
      return typed_transpose<uint32_t>(a);
    default:
      return typed_transpose<uint64_t>(a);
  }
}

OpDef transpose_def() {
  OpDef d;
  d.name = "Transpose";
  d.infer = infer_transpose;
  d.gradient = grad_transpose;
  d.simplify = simplify_transpose;
  d.moves = true;
  return d;
}
const RegisterOp transpose_op{transpose_def()};
const RegisterKernel transpose_cpu{DeviceKind::cpu, "Transpose", transpose_kernel};

void lower_transpose(Lowering& l) {
  std::vector<int64_t> perm = l.attrs.ints("perm");
  if (perm.empty()) {
    perm.resize(static_cast<size_t>(l.rank(0)));
    std::iota(perm.rbegin(), perm.rend(), int64_t{0});
  }
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<int64_t>(i) || perm.size() != static_cast<size_t>(l.rank(0))) {
      fail(Exit::model, "E_ATTR", cat("Transpose: perm ", to_string(perm), " is no permutation of rank ", l.rank(0)));
    }
  }
  l.out(0, l.b.transpose(l.in(0), perm));
}
const RegisterOnnx onnx{{"Transpose", lower_transpose, 1, {}}};

}  // namespace
}  // namespace amp
