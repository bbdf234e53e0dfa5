#include "backend/cuda/divide.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/plain_product.h"
#include "backend/cuda/ref.cuh"

namespace amp::cuda {

namespace plain_product_detail {

struct Multiply {
  Ref a, b, c, bias;
  Divisor m, n;
  int64_t k;
  int64_t batch_a, batch_b, batch_c;         // strides from one matrix to the next
  int64_t row_a, k_a, k_b, column_b, row_c;  // strides within a matrix
  float alpha;
  bool adds;

  DEV void operator()(int64_t index) const {
    const int64_t j = n.take(index), i = m.take(index);
    const int64_t x = index * batch_a + i * row_a, y = index * batch_b + j * column_b;
    float sum = 0;
    ROLLED
    for (int64_t p = 0; p < k; ++p) sum += load<float>(a, x + p * k_a) * load<float>(b, y + p * k_b);
    const int64_t at = index * batch_c + i * row_c + j;
    float v = alpha * sum;
    if (adds) v += load<float>(c, at);
    if (bias) v += load<float>(bias, j);
    store(c, at, v);
  }
};

}  // namespace plain_product_detail

std::function<void(const void*, const void*, void*)> plain_product(CudaDevice& d, const Gemm& g) {
  const auto ref = [](const void* data, DType type) {
    Ref r;
    r.data = const_cast<void*>(data);
    r.type = type;
    return r;
  };
  plain_product_detail::Multiply body{};
  body.bias = ref(g.bias, g.out);
  body.m = Divisor(std::max<int64_t>(1, g.m));
  body.n = Divisor(std::max<int64_t>(1, g.n));
  body.k = g.k;
  body.batch_a = g.stride_a;
  body.batch_b = g.stride_b;
  body.batch_c = g.stride_c;
  const int64_t lda = g.lda ? g.lda : g.trans_a ? g.m : g.k, ldb = g.ldb ? g.ldb : g.trans_b ? g.k : g.n;
  body.row_a = g.trans_a ? 1 : lda;
  body.k_a = g.trans_a ? lda : 1;
  body.column_b = g.trans_b ? ldb : 1;
  body.k_b = g.trans_b ? 1 : ldb;
  body.row_c = g.ldc ? g.ldc : g.n;
  body.alpha = static_cast<float>(g.alpha);
  body.adds = g.beta != 0;
  return [&d, g, body, ref](const void* a, const void* b, void* c) mutable {
    body.a = ref(a, g.in);
    body.b = ref(b, g.in);
    body.c = ref(c, g.out);
    for_each(d, g.batch * g.m * g.n, body);
  };
}

}  // namespace amp::cuda
