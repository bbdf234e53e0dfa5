// The kernels of MatMul (ops/matmul.cc). The device's library (cuBLASLt) computes matrix products. A batch is divided
// into the longest runs of matrices whose operands have constant strides; each run is one call. Operands of different
// types are converted in the workspace first. Products of integers have a plain kernel.
#include <numeric>

#include "backend/cuda/launch.cuh"
#include "backend/cuda/raw.cuh"
#include "backend/cuda/staged.h"
#include "ops/matmul.h"

namespace amp::cuda {
namespace {

// The product if k = 0: the sum is empty, so only the bias remains.
struct BiasOnly {
  Ref y, bias;
  int64_t columns;
  bool accumulate;
  DEV void operator()(int64_t i) const {
    const float v = bias ? load<float>(bias, i % columns) : 0.0f;
    store(y, i, accumulate ? load<float>(y, i) + v : v);
  }
};

// Adds a bias if the library cannot add it in its epilogue.
struct AddBias {
  Ref y, bias;
  int64_t columns;
  DEV void operator()(int64_t i) const {
    store(y, i, load<float>(y, i) + load<float>(bias, i - quotient(i, columns) * columns));
  }
};

// Divides the matrices of the batch into runs of equal length, in each of which both operands have constant strides.
// Returns the largest possible length.
int64_t run_length(const MatMulProducts& p, const std::vector<int64_t>& oa, const std::vector<int64_t>& ob) {
  int64_t length = p.batch;
  const auto regular = [&](const std::vector<int64_t>& o, int64_t n) {
    for (int64_t i = 0; i < p.batch; ++i) {
      const int64_t first = i / n * n;
      const int64_t stride = n > 1 ? o[1] - o[0] : 0;
      if (o[static_cast<size_t>(i)] != o[static_cast<size_t>(first)] + (i - first) * stride) return false;
    }
    return true;
  };
  for (size_t d = 0; d < p.shape.batch.size(); ++d) {
    if (regular(oa, length) && regular(ob, length)) return length;
    length /= std::max<int64_t>(p.shape.batch[d], 1);
  }
  return 1;
}

// The product of two integer matrices, with one thread per element. Each matrix of a batch is a separate launch.
struct IntegerProduct {
  Ref a, b, y;
  int64_t at_a, at_b, at_y, n, k, ai, ak, bk, bj;  // first offsets of the matrices, then extents, then strides
  DEV void operator()(int64_t e) const {
    const int64_t i = quotient(e, n), j = e - i * n;
    uint64_t sum = 0;
    for (int64_t q = 0; q < k; ++q) {
      sum += static_cast<uint64_t>(load<int64_t>(a, at_a + i * ai + q * ak)) *
             static_cast<uint64_t>(load<int64_t>(b, at_b + q * bk + j * bj));
    }
    store(y, at_y + e, static_cast<int64_t>(sum));
  }
};

Kernel integer_matmul(const KernelArgs& args) {
  const MatMulProducts p(args);
  const Tensor &a = args.in[0], &b = args.in[1], &y = args.out[0];
  if (a.dtype != y.dtype || b.dtype != y.dtype || p.alpha != 1 || args.has(2))
    fail(Exit::unsupported, "E_DTYPE", "MatMul of integers requires two operands of one type, no scale and no bias");
  const int64_t lda = p.da.back(), ldb = p.db.back(), size = p.shape.m * p.shape.n;
  IntegerProduct one{a, b, y, 0, 0, 0, p.shape.n, p.shape.k, lda, 1, ldb, 1};
  if (p.ta) std::swap(one.ai, one.ak);
  if (p.tb) std::swap(one.bk, one.bj);
  return [&d = device_of(args), one, size, oa = p.offsets(p.da), ob = p.offsets(p.db)]() mutable {
    for (size_t z = 0; z < oa.size(); ++z) {
      one.at_a = oa[z];
      one.at_b = ob[z];
      one.at_y = static_cast<int64_t>(z) * size;
      for_each(d, size, one);
    }
  };
}

// Sets the batch and the strides of a call, and returns the number of products per call. The library also derives from
// the strides how the operands are aligned.
int64_t set_strides(Gemm& g, const MatMulProducts& p, const std::vector<int64_t>& oa, const std::vector<int64_t>& ob) {
  int64_t length = run_length(p, oa, ob);
  // Returns whether some run of an operand begins at an address with less alignment than the library derives from the
  // stride. If so, each call computes a single product.
  const auto misaligned = [&](const std::vector<int64_t>& o) {
    if (length <= 1 || (o[1] - o[0]) * size_of(g.in) % 16 != 0) return false;  // then the library assumes no alignment
    for (int64_t i = 0; i < p.batch; i += length) {
      if (o[static_cast<size_t>(i)] * size_of(g.in) % 16 != 0) return true;
    }
    return false;
  };
  if (misaligned(oa) || misaligned(ob)) length = 1;
  g.batch = length;
  if (length > 1) {
    g.stride_a = oa[1] - oa[0];
    g.stride_b = ob[1] - ob[0];
    g.stride_c = g.m * g.n;
  } else {  // for single products, the strides only state the alignment
    for (const int64_t o : oa) g.stride_a = std::gcd(g.stride_a, o);
    for (const int64_t o : ob) g.stride_b = std::gcd(g.stride_b, o);
    g.stride_c = p.batch > 1 ? g.m * g.n : 0;
  }
  return length;
}

template <bool accumulate>
Kernel matmul(const KernelArgs& args, Carver& carver) {
  if (!is_float(args.out[0].dtype)) return carver.measuring() ? Kernel{} : integer_matmul(args);
  const MatMulProducts p(args);
  const DType in = common_type(args.in[0], args.in[1]);
  if (in == DType::f64) no_fp64(args);
  check(!accumulate || args.out[0].dtype == DType::f32, "products are added up in fp32");
  const DType out = args.out[0].dtype == in ? in : DType::f32;  // a library stores the operands' type or fp32
  const Staged a = Staged::input(args, carver, args.in[0], in), b = Staged::input(args, carver, args.in[1], in);
  const Staged c = Staged::output(args, carver, args.out[0], out);
  const Staged bias = args.has(2) ? Staged::input(args, carver, args.in[2], out) : Staged{};
  if (carver.measuring()) return {};
  CudaDevice& device = device_of(args);
  if (args.out[0].numel() == 0) return [] {};
  if (p.shape.k == 0) {
    const BiasOnly body{args.out[0], args.has(2) ? Ref(args.in[2]) : Ref(), p.shape.n, accumulate};
    return [&device, body, n = args.out[0].numel()] { for_each(device, n, body); };
  }
  Gemm g;
  g.m = p.shape.m;
  g.n = p.shape.n;
  g.k = p.shape.k;
  g.trans_a = p.ta;
  g.trans_b = p.tb;
  g.alpha = p.alpha;
  g.beta = accumulate ? 1 : 0;
  g.in = in;
  g.out = out;
  g.bias = bias.data;
  const std::vector<int64_t> oa = p.offsets(p.da), ob = p.offsets(p.db);
  const int64_t length = set_strides(g, p, oa, ob);
  auto product = device.gemm(g);
  Kernel add_bias = [] {};
  if (!product) {  // the library cannot add this bias
    add_bias = [&device, body = AddBias{Tensor{c.data, out, args.out[0].dims}, Tensor{bias.data, out, {g.n}}, g.n},
                n = args.out[0].numel()] { for_each(device, n, body); };
    g.bias = nullptr;
    product = device.gemm(g);
  }
  const int64_t wide_in = size_of(in), wide_out = size_of(out);
  return [=, batch = p.batch] {
    a.move();
    b.move();
    bias.move();
    for (int64_t i = 0; i < batch; i += length) {
      const auto z = static_cast<size_t>(i);
      product(static_cast<const char*>(a.data) + oa[z] * wide_in, static_cast<const char*>(b.data) + ob[z] * wide_in,
              static_cast<char*>(c.data) + i * g.m * g.n * wide_out);
    }
    add_bias();
    c.move();
  };
}

const RegisterKernel kernels[] = {
    {DeviceKind::cuda, "MatMul", with_workspace<matmul<false>>, measure_workspace<matmul<false>>},
    {DeviceKind::cuda, "MatMul+=", with_workspace<matmul<true>>}};

}  // namespace
}  // namespace amp::cuda
