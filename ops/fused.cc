// Fused: a chain of elementwise operators as one node (backend/fused_program.h). ops/passes/fuse.h makes such nodes
// after autodiff. Inputs broadcast. Outputs have the broadcast dims, except outputs that are sums.
#include <algorithm>
#include <map>

#include "backend/broadcast_loop.h"
#include "backend/elementwise.h"
#include "backend/fused_program.h"
#include "graph/op.h"
#include "ops/dropout.h"
#include "ops/fused_layout.h"

namespace amp {
namespace {

constexpr int64_t kPart = 512;  // elements per chunk
constexpr size_t kValues = 64;  // maximum number of values in a Fused node's program

void infer(InferCtx& c) {
  Dims dims;
  for (size_t i = 0; i < c.n_in(); ++i) dims = broadcast(dims, c.in(i).dims);
  for (const FusedStep& s : FusedProgram::parse(c.attrs, c.n_in()).steps) {
    if (s.op == kFusedSum) {
      const Attrs a = sum_attrs(s.attrs);
      c.out(s.type, reduced_dims(dims, a.ints("axes"), a.i("keepdims", 1) != 0));
    } else if (s.out) {
      c.out(s.type, dims);
    }
  }
}

// A value of the current chunk, float or bool: n elements, or one element that broadcasts to n.
union Cell {
  float f[kPart];
  bool b[kPart];
};

// Runs all steps on one chunk of elements after another, so that values stay in the cache. Each step calls the
// operator's own row loop.
class Chunks {
 public:
  explicit Chunks(const KernelArgs& a)
      : program_(FusedProgram::parse(a.attrs(), a.in.size())), in_(a.in), state_(a.state) {
    check(in_.size() + program_.steps.size() <= kValues, "a fused node of too many values");
    const Dims& dims = a.out[0].dims;
    std::vector<Dims> operands;
    for (const Tensor& t : in_) operands.push_back(t.dims);
    loop_ = make_broadcast_loop(dims, operands);
    size_t out = 0;
    std::erase_if(program_.steps, [](const FusedStep& s) { return s.op == kFusedSum; });  // sums are the last steps
    for (const FusedStep& s : program_.steps) {
      Step step;
      step.functor = find_functor(s.op);
      step.is_bool = s.type == DType::boolean;
      if (step.functor && step.functor->bytes) {
        step.bytes.resize((step.functor->bytes + 7) / 8);
        step.functor->pack(s.attrs, step.bytes.data());
      }
      if (s.op == "Dropout") step.dropout = std::make_shared<DropoutShape>(s.attrs, numel(dims));
      if (s.out) step.out = a.out[out++];
      steps_.push_back(step);
    }
  }
  int64_t rows() const { return loop_.outer; }
  int64_t inner() const { return loop_.inner; }

  // Computes elements [begin, end) of a row.
  void run(int64_t row, int64_t begin, int64_t end) const {
    static thread_local std::vector<Cell> cells;
    cells.resize(in_.size() + steps_.size());
    std::array<int64_t, kValues> offset{};
    int64_t rest = row;
    for (size_t d = loop_.extent.size(); d-- > 0; rest /= loop_.extent[d]) {
      for (size_t k = 0; k < in_.size(); ++k) offset[k] += rest % loop_.extent[d] * loop_.stride[k][d];
    }
    std::array<const void*, kValues> at{};
    std::array<bool, kValues> walks;
    walks.fill(true);
    for (int64_t b = begin; b < end; b += kPart) {
      const int64_t n = std::min(kPart, end - b);
      for (size_t k = 0; k < in_.size(); ++k) {
        walks[k] = loop_.inner_stride[k] != 0 && loop_.inner > 1;
        at[k] = load(in_[k], offset[k] + b * loop_.inner_stride[k], walks[k] ? n : 1, cells[k]);
      }
      for (size_t i = 0; i < steps_.size(); ++i) {
        const size_t v = in_.size() + i;
        step(i, row * loop_.inner + b, n, at, walks, cells[v]);
        at[v] = &cells[v];
      }
      // Outputs are stored last, because an output may share memory with an input.
      for (size_t i = 0; i < steps_.size(); ++i) {
        const Tensor& t = steps_[i].out;
        if (!t.data) continue;
        char* const to = static_cast<char*>(t.data) + (row * loop_.inner + b) * size_of(t.dtype);
        convert(steps_[i].is_bool ? DType::boolean : DType::f32, at[in_.size() + i], t.dtype, to, n);
      }
    }
  }

 private:
  struct Step {
    const FunctorInfo* functor = nullptr;
    bool is_bool = false;
    std::vector<uint64_t> bytes;
    std::shared_ptr<const DropoutShape> dropout;
    Tensor out;
  };

  static const void* load(const Tensor& t, int64_t offset, int64_t n, Cell& cell) {
    if (t.dtype == DType::boolean) return static_cast<const bool*>(t.data) + offset;
    return elementwise_detail::load<float>(t, offset, n, cell.f);
  }
  void step(size_t i, int64_t first, int64_t n, const std::array<const void*, kValues>& at,
            const std::array<bool, kValues>& walks, Cell& to) const {
    const FusedStep& s = program_.steps[i];
    unsigned mask = 0;
    const void* x[3] = {};
    for (size_t k = 0; k < s.in.size(); ++k) {
      x[k] = at[static_cast<size_t>(s.in[k])];
      if (walks[static_cast<size_t>(s.in[k])]) mask |= 1u << k;
    }
    if (steps_[i].functor) {
      steps_[i].functor->run(steps_[i].bytes.data(), x, mask, &to, n);
    } else if (s.op == "Where") {
      const bool* c = static_cast<const bool*>(x[0]);
      const float *p = static_cast<const float*>(x[1]), *q = static_cast<const float*>(x[2]);
      const int64_t sc = mask & 1u, sp = mask >> 1 & 1u, sq = mask >> 2 & 1u;
      for (int64_t j = 0; j < n; ++j) to.f[j] = c[j * sc] ? p[j * sp] : q[j * sq];
    } else if (s.op == "Cast") {
      const DType from = type_of(s.in[0]) == DType::boolean ? DType::boolean : DType::f32;
      convert(from, x[0], steps_[i].is_bool ? DType::boolean : DType::f32, &to, n);
    } else {
      dropout_span(*steps_[i].dropout, *state_, first, n, static_cast<const float*>(x[0]), to.f);
    }
    if (!is_low(s.type)) return;
    uint16_t rounded[kPart];
    convert(DType::f32, to.f, s.type, rounded, n);
    convert(s.type, rounded, DType::f32, to.f, n);
  }
  DType type_of(int v) const {
    return v < program_.n_in ? in_[static_cast<size_t>(v)].dtype
                             : program_.steps[static_cast<size_t>(v - program_.n_in)].type;
  }

  FusedProgram program_;
  std::vector<Tensor> in_;
  const RunState* state_;
  std::vector<Step> steps_;
  BroadcastLoop loop_;
};

// Returns a kernel that runs `elements`, and then for each sum a kernel that reads a stored output.
Kernel with_sums(const KernelArgs& a, Kernel elements) {
  std::vector<Kernel> kernels = {std::move(elements)};
  const FusedProgram p = FusedProgram::parse(a.attrs(), a.in.size());
  std::map<int, size_t> stored;  // value -> index of the output that stores it
  size_t out = 0;
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const FusedStep& s = p.steps[i];
    if (s.out) stored[p.value_of(i)] = out++;
    if (s.op != kFusedSum) continue;
    const Node sum{&core_op(kFusedSum), {}, {}, sum_attrs(s.attrs), {}};
    kernels.push_back(find_kernel(DeviceKind::cpu, kFusedSum)(
        {sum, {a.out.at(stored.at(s.in.at(0)))}, {a.out.at(out - 1)}, nullptr, a.state, nullptr}));
  }
  if (kernels.size() == 1) return kernels[0];
  return [kernels] {
    for (const Kernel& k : kernels) k();
  };
}

Kernel elements(const KernelArgs& a) {
  const auto chunks = std::make_shared<Chunks>(a);
  constexpr int64_t kGrain = 16384;
  if (chunks->rows() == 1) {
    return [chunks] { parallel_ranges(chunks->inner(), kGrain, [&](int64_t b, int64_t e) { chunks->run(0, b, e); }); };
  }
  return [chunks] {
    parallel_ranges(chunks->rows(), kGrain / chunks->inner() + 1, [&](int64_t b, int64_t e) {
      for (int64_t row = b; row < e; ++row) chunks->run(row, 0, chunks->inner());
    });
  };
}

Kernel kernel(const KernelArgs& a) {
  if (a.out[0].numel() == 0) return [] {};
  return with_sums(a, elements(a));
}

OpDef def() {
  OpDef d;
  d.name = "Fused";
  d.infer = infer;
  d.not_differentiable = true;
  d.min_inputs = 1;
  // A Fused node may contain a Dropout, but its effect is not set to Effect::random. The effect matters only to
  // passes that fold or merge nodes, and none of these runs after Fused nodes are created.
  d.may_overwrite = true;
  return d;
}
const RegisterOp op{def()};
const RegisterKernel cpu{DeviceKind::cpu, "Fused", kernel};

}  // namespace
}  // namespace amp
