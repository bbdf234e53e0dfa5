// Core operator AxisMap (ops/axis_map.h): y is the product of a sparse matrix, in CSR format, and x along one axis. The
// kernel vectorizes over the axes after this one. The gradient is AxisMap with the transposed matrix.

#include "ops/axis_map.h"

#include "backend/rows.h"
#include "ops/elementwise_op.h"

namespace amp {

bool AxisMap::identity(int64_t n) const {
  if (rows() != n || static_cast<int64_t>(index.size()) != n) return false;
  for (int64_t i = 0; i < n; ++i) {
    const size_t t = static_cast<size_t>(i);
    if (begin[t] != i || index[t] != i || weight[t] != 1) return false;
  }
  return true;
}

AxisMap AxisMap::transposed(int64_t n) const {
  AxisMap m;
  std::vector<std::vector<std::pair<int64_t, double>>> lines(static_cast<size_t>(n));
  for (int64_t j = 0; j < rows(); ++j) {
    for (int64_t t = begin[static_cast<size_t>(j)]; t < begin[static_cast<size_t>(j) + 1]; ++t) {
      lines[static_cast<size_t>(index[static_cast<size_t>(t)])].emplace_back(j, weight[static_cast<size_t>(t)]);
    }
  }
  for (const auto& line : lines) {
    for (const auto& [j, w] : line) m.add(j, w);
    m.end_row();
  }
  return m;
}

AxisMap select_map(const std::vector<int64_t>& sources) {
  AxisMap m;
  for (const int64_t s : sources) {
    m.add(s, 1);
    m.end_row();
  }
  return m;
}

namespace {

AxisMap read(const Attrs& a) {
  AxisMap m;
  m.begin = a.ints("begin");
  m.index = a.ints("index");
  m.weight = a.floats("weight");
  return m;
}
Attrs attrs_of(const AxisMap& m, int64_t axis) {
  return {{"axis", axis}, {"begin", m.begin}, {"index", m.index}, {"weight", m.weight}};
}

void infer(InferCtx& c) {
  Dims d = c.in(0).dims;
  d[static_cast<size_t>(c.attrs.i("axis", 0))] = static_cast<int64_t>(c.attrs.ints("begin").size()) - 1;
  c.out(c.in(0).dtype, d);
}

template <class T>
Kernel typed(const KernelArgs& a) {
  const Tensor x = a.in[0], y = a.out[0];
  if (y.numel() == 0) return [] {};
  const size_t axis = static_cast<size_t>(a.attrs().i("axis", 0));
  const AxisMap m = read(a.attrs());
  const std::vector<T> weight(m.weight.begin(), m.weight.end());
  const int64_t n = x.dims[axis], k = m.rows();
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < x.dims.size(); ++d) (d < axis ? outer : inner) *= d == axis ? 1 : x.dims[d];
  if (inner == 1) {
    return [=] {
      parallel_ranges(outer, 8192 / k + 1, [&](int64_t b, int64_t e) {
        T* const s0 = thread_scratch<T>(n, 0);
        T* const s1 = thread_scratch<T>(k, 1);
        for (int64_t o = b; o < e; ++o) {
          const T* p = load_row(x, o, n, s0);
          T* q = row_buffer(y, o, k, s1);
          for (int64_t j = 0; j < k; ++j) {
            T sum = 0;
            for (int64_t t = m.begin[static_cast<size_t>(j)]; t < m.begin[static_cast<size_t>(j) + 1]; ++t) {
              sum = static_cast<T>(sum + weight[static_cast<size_t>(t)] * p[m.index[static_cast<size_t>(t)]]);
            }
            q[j] = sum;
          }
          store_row(q, y, o, k);
        }
      });
    };
  }
  constexpr int64_t kBlock = 256;
  return [=] {
    parallel_ranges(outer * k, 16384 / inner + 1, [&](int64_t b, int64_t e) {
      T scratch[kBlock], sum[kBlock];
      for (int64_t r = b; r < e; ++r) {
        const int64_t o = r / k, j = r % k;
        for (int64_t at = 0; at < inner; at += kBlock) {
          const int64_t len = std::min(kBlock, inner - at);
          std::fill(sum, sum + len, T(0));
          for (int64_t t = m.begin[static_cast<size_t>(j)]; t < m.begin[static_cast<size_t>(j) + 1]; ++t) {
            const T* p =
                elementwise_detail::load<T>(x, (o * n + m.index[static_cast<size_t>(t)]) * inner + at, len, scratch);
            const T w = weight[static_cast<size_t>(t)];
            simd([&]() AMP_INLINE {
              for (int64_t i = 0; i < len; ++i) sum[i] = static_cast<T>(sum[i] + w * p[i]);
            });
          }
          convert(DTypeOf<T>::value, sum, y.dtype, static_cast<char*>(y.data) + (r * inner + at) * size_of(y.dtype),
                  len);
        }
      }
    });
  };
}
Kernel kernel(const KernelArgs& a) {
  if (!is_float(a.in[0].dtype)) return typed<int64_t>(a);
  return in_double(a) ? typed<double>(a) : typed<float>(a);
}

void grad(GradBuilder& g) {
  const int64_t axis = g.attrs().i("axis", 0);
  g.add_grad(0, map_axis(g.b, g.dy(0), axis, read(g.attrs()).transposed(g.dims(g.in(0))[static_cast<size_t>(axis)])));
}

OpDef def() {
  OpDef d;
  d.name = "AxisMap";
  d.infer = infer;
  d.gradient = grad;
  return d;
}
const RegisterOp op{def()};
const RegisterKernel cpu{DeviceKind::cpu, "AxisMap", kernel};

}  // namespace

ValueId map_axis(Builder& b, ValueId x, int64_t axis, const AxisMap& m) {
  if (m.identity(b.dims(x)[static_cast<size_t>(axis)])) return x;
  return b.op("AxisMap", {x}, attrs_of(m, axis));
}

}  // namespace amp
