// Softmax cross-entropy on logits, summed over valid rows (those whose label is not ignore_index):
//   loss = sum_i [label_i != ignore] (log sum_j e^(x_ij) - x_i,label),
//   dx = seed (softmax(x) - onehot(label)) on valid rows, 0 elsewhere.
// Core operator CrossEntropy(logits (N, C), labels int64 (N)) -> scalar, with the attribute ignore_index. Arithmetic is
// fp64 for fp64 logits, otherwise fp32.
#include <numeric>

#include "backend/indices.h"
#include "backend/rows.h"
#include "ops/elementwise_op.h"
#include "ops/term.h"

namespace amp {
namespace {

DType stat_type(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }
void infer_loss(InferCtx& c) { c.out(stat_type(c.in(0).dtype), {}); }

int64_t label_of(const Tensor& labels, int64_t i, int64_t classes, int64_t ignore) {
  const int64_t y = labels.as<int64_t>()[i];
  if (y != ignore && (y < 0 || y >= classes)) {
    fail(Exit::data, "E_DATA_LABEL", cat("label ", y, " in row ", i, " of a batch is outside 0..", classes - 1),
         "correct the label; in training, `num_labels` makes a head of more classes");
  }
  return y;
}

// The rows are divided into a fixed number of shards (ranges of rows). Each shard's losses are summed, then the sums of
// the shards are added in order. So the result does not depend on the number of threads.
constexpr int64_t kShards = 16;
int64_t workspace(const Graph&, const Node&) { return kShards * 8; }

template <class T>
Kernel loss_kernel(const KernelArgs& a) {
  const Tensor x = a.in[0], labels = a.in[1], y = a.out[0];
  const int64_t n = x.dims.at(1), rows = x.dims[0], ignore = a.attrs().i("ignore_index", -100);
  T* const partial = static_cast<T*>(a.workspace);
  const int64_t step = std::max<int64_t>(1, (rows + kShards - 1) / kShards), shards = (rows + step - 1) / step;
  return [=] {
    parallel_for(shards, [&](int64_t s) {
      T* const scratch = thread_scratch<T>(n, 0);
      T sum = 0;
      for (int64_t r = s * step; r < std::min(rows, (s + 1) * step); ++r) {
        const int64_t label = label_of(labels, r, n, ignore);
        if (label == ignore) continue;
        const T* p = load_row(x, r, n, scratch);
        T top = 0, total = 0;
        simd([&]() AMP_INLINE {
          top = row_max(p, n);
          total = lane_sum<T>(n, [&](int64_t i) AMP_INLINE { return math::exp(p[i] - top); });
        });
        sum += std::log(total) + (top - p[label]);  // top + log(total) would round log(total) away if top is large
      }
      partial[s] = sum;
    });
    T sum = 0;
    for (int64_t s = 0; s < shards; ++s) sum += partial[s];
    *y.as<T>() = sum;
  };
}

// The kernel of CrossEntropyGrad. Inputs: logits, labels, seed (scalar). Output: dlogits in the logits' type.
template <class T>
Kernel grad_kernel(const KernelArgs& a) {
  const Tensor x = a.in[0], labels = a.in[1], dx = a.out[0];
  const T* const seed = a.in[2].as<T>();
  const int64_t n = x.dims.at(1), rows = x.dims[0], ignore = a.attrs().i("ignore_index", -100);
  return [=] {
    parallel_ranges(rows, 8192 / n + 1, [&](int64_t b, int64_t e) {
      T* const s0 = thread_scratch<T>(n, 0);
      T* const s1 = thread_scratch<T>(n, 1);
      for (int64_t r = b; r < e; ++r) {
        T* q = row_buffer(dx, r, n, s1);
        const int64_t label = label_of(labels, r, n, ignore);
        if (label == ignore) {
          std::fill(q, q + n, T(0));
        } else {
          const T* p = load_row(x, r, n, s0);
          simd([&]() AMP_INLINE {
            const T top = row_max(p, n);
            for (int64_t i = 0; i < n; ++i) q[i] = math::exp(p[i] - top);
            const T scale = *seed / lane_sum<T>(n, [&](int64_t i) AMP_INLINE { return q[i]; });
            for (int64_t i = 0; i < n; ++i) q[i] *= scale;
          });
          q[label] -= *seed;
        }
        store_row(q, dx, r, n);
      }
    });
  };
}
Kernel loss(const KernelArgs& a) { return in_double(a) ? loss_kernel<double>(a) : loss_kernel<float>(a); }
Kernel grad(const KernelArgs& a) { return in_double(a) ? grad_kernel<double>(a) : grad_kernel<float>(a); }

void gradient(GradBuilder& g) { g.add_grad(0, g.op("CrossEntropyGrad", {g.in(0), g.in(1), g.dy(0)}, g.attrs())); }

// Decomposes CrossEntropyGrad to where(valid, seed (softmax(x) - onehot(label)), 0).
std::vector<ValueId> decompose_grad(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  const Term x(b, in[0]), label = Term(b, in[1]).shaped({b.dims(in[1]).at(0), 1});
  std::vector<int64_t> classes(static_cast<size_t>(x.dims().at(1)));
  std::iota(classes.begin(), classes.end(), int64_t{0});
  const Dims row{1, x.dims().at(1)};
  const Term hit = binary("Equal", label, Term(b, b.constant(HostTensor::of<int64_t>(row, classes))));
  const Term seed(b, b.cast(in[2], b.dtype(x))), onehot(b, b.cast(hit, b.dtype(x)));
  const Term ignored = label == static_cast<double>(a.i("ignore_index", -100));
  return {where(ignored, seed.like(0), seed * (x.to("Softmax") - onehot))};
}

OpDef def(const char* name, void (*infer)(InferCtx&), Gradient rule, bool space,
          Decomposition decomposition = nullptr) {
  OpDef d;
  d.decomposition = decomposition;
  d.name = name;
  d.infer = infer;
  d.gradient = rule;
  if (space) d.workspace = workspace;
  return d;
}
const RegisterOp ops_[] = {RegisterOp{def("CrossEntropy", infer_loss, gradient, true)},
                           RegisterOp{def("CrossEntropyGrad", infer_same, nullptr, false, decompose_grad)}};
const RegisterLookup lookup{
    "CrossEntropy",
    {1, [](const Graph& g, const Node& n) {
       return IndexBound{0, g.value(n.in[0]).dims.at(1), true, n.attrs.i("ignore_index", -100), IndexBound::label};
     }}};
const RegisterKernel kernels_[] = {{DeviceKind::cpu, "CrossEntropy", loss},
                                   {DeviceKind::cpu, "CrossEntropyGrad", grad}};

}  // namespace
}  // namespace amp
