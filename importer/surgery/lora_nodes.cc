// Builds adapters. All adapters of a map are computed as one low-rank product. x is multiplied by the A's side by side
// [in, R]. The result is multiplied by a block matrix [R, out] that has the scaled B of each part in the part's
// columns. R is the sum of their ranks.
//
// DoRA needs |W + S|, the norm of each column, with S = A B of the block form. W may be packed, so it is not computed
// densely: |W + S|^2 = |W|^2 + 2 sum_k (A^T W)[k] B[k] + sum_k ((A^T A) B)[k] B[k]. |W|^2 is a constant, and A^T W is
// the map itself with A^T as its input, a product of R rows.
#include "importer/surgery/lora_nodes.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "graph/quantizer.h"
#include "importer/surgery/edit.h"
#include "importer/surgery/low_rank.h"

namespace amp {
namespace {

constexpr const char* kReason = "LoRA";

class MapAdapter {
 public:
  MapAdapter(SourceGraph& g, const LinearMap& map, const std::vector<AdapterPlan>& plans, const LoraOptions& o)
      : g_(g),
        map_(map),
        plans_(plans),
        o_(o),
        merged_(map.mergeable && !o.keep && !o.separate),
        e_(g, merged_ || o.separate ? Place::training : Place::added),
        training_(g, Place::training) {}

  std::vector<LoraAdapter> run();

 private:
  const SourceNode& node(int n) const { return g_.nodes[static_cast<size_t>(n)]; }
  std::string stem() const { return plans_.size() == 1 ? plans_[0].name : map_.name; }
  LoraAdapter parameters(const AdapterPlan& plan);
  HostTensor first_a(const AdapterPlan& plan, const Dims& dims) const;
  void take_principal(const AdapterPlan& plan, LoraAdapter& a);
  void block_form();
  void magnitudes();
  int zeros(int64_t rows, int64_t columns);
  int scaled_b(const LoraAdapter& a);
  void apply(const LinearMap::Use& use);
  int low_rank(const LinearMap::Use& use, int x, const std::string& name);
  int decomposed(const LinearMap::Use& use, const std::string& name);
  int in_fp32(int v) { return map_.type == DType::f32 ? v : e_.cast(g_.value(v).name + "_fp32", v, DType::f32); }

  SourceGraph& g_;
  const LinearMap& map_;
  const std::vector<AdapterPlan>& plans_;
  const LoraOptions& o_;
  bool merged_;
  GraphEditor e_, training_;
  std::vector<LoraAdapter> adapters_;
  int a_ = -1, b_ = -1;  // the A's of all adapters side by side; the block matrix of their scaled B's
  int gain_ = -1;        // DoRA: m / |W + S|, shape [out]; S = A B of the block form
  int sum_ = -1;         // map's output plus low-rank product, for the current use
};

// Returns the dims of A: [r, channels, kernel...] for a convolution, as its weight has; otherwise [in, r].
Dims shape_of_a(const SourceGraph& g, const LinearMap& map, int64_t rank) {
  if (map.kind != MapKind::convolution) return {map.in, rank};
  Dims d = g.value(map.weight).data.dims();
  d[0] = rank;
  return d;
}

Dims shape_of_b(const SourceGraph& g, const LinearMap& map, int64_t rank, int64_t out) {
  if (map.kind != MapKind::convolution) return {rank, out};
  Dims d(g.value(map.weight).data.dims().size(), 1);
  d[0] = out;
  d[1] = rank;
  return d;
}

// Returns whether A starts at zero. For tables PEFT also does so and draws B, because rows of A get few gradients.
bool zero_a(const LinearMap& map, LoraInit init) { return init == LoraInit::zero || map.kind == MapKind::table; }

HostTensor MapAdapter::first_a(const AdapterPlan& plan, const Dims& dims) const {
  if (zero_a(map_, o_.init)) return HostTensor::zeros(DType::f32, dims);
  const uint32_t stream = name_hash(plan.name);
  if (o_.init == LoraInit::gaussian) return normal_tensor(dims, 1 / static_cast<double>(plan.rank), o_.seed, stream);
  return uniform_tensor(dims, 1 / std::sqrt(static_cast<double>(map_.in)), o_.seed, stream);
}

HostTensor first_b(const LinearMap& map, const AdapterPlan& plan, const LoraOptions& o, const Dims& dims) {
  if (!zero_a(map, o.init)) return HostTensor::zeros(DType::f32, dims);
  const uint32_t stream = name_hash(plan.name);
  if (map.kind == MapKind::table) return normal_tensor(dims, 1, o.seed, stream);
  return uniform_tensor(dims, 1 / std::sqrt(static_cast<double>(map.in)), o.seed, stream);
}

LoraAdapter MapAdapter::parameters(const AdapterPlan& plan) {
  LoraAdapter a;
  a.map = map_.name;
  a.node = node(map_.uses.front().node).name;
  a.role = map_.role;
  a.part = plan.part;
  a.kind = map_.kind;
  a.weight = map_.weight;
  a.transposed = map_.transposed;
  a.type = map_.type;
  a.in = map_.in;
  a.out = plan.out;
  a.first = plan.first;
  a.map_out = map_.out;
  a.rank = plan.rank;
  a.alpha = plan.alpha;
  const auto rank = static_cast<double>(plan.rank);
  a.scale = plan.alpha / (o_.rslora ? std::sqrt(rank) : rank);
  a.merged = merged_;
  const Dims dims_a = shape_of_a(g_, map_, plan.rank), dims_b = shape_of_b(g_, map_, plan.rank, plan.out);
  a.a = e_.parameter(plan.name + ".lora_A", first_a(plan, dims_a).cast(map_.type), kReason);
  a.b = e_.parameter(plan.name + ".lora_B", first_b(map_, plan, o_, dims_b).cast(map_.type), kReason);
  const std::string& name = g_.value(a.a).name;  // the editor makes the name unique
  a.name = name.ends_with(".lora_A") ? name.substr(0, name.size() - 7) : plan.name;
  if (o_.init == LoraInit::pissa) take_principal(plan, a);
  return a;
}

// Moves the largest singular values of the part's columns of W to A and B. W keeps the rest.
void MapAdapter::take_principal(const AdapterPlan& plan, LoraAdapter& a) {
  SourceValue& w = g_.values[static_cast<size_t>(map_.weight)];
  HostTensor dense = dense_weight(g_, map_, o_.evaluate);
  const LowRank p = principal(columns_of(dense, plan.first, plan.out), plan.rank, o_.seed);
  HostTensor left = p.left, right = p.right;
  // left * right is the principal part; the adapter multiplies by `scale`.
  const float share = static_cast<float>(1 / std::sqrt(a.scale));
  for (HostTensor* t : {&left, &right}) {
    for (int64_t i = 0; i < t->numel(); ++i) t->as_mutable<float>()[i] *= share;
    *t = t->cast(map_.type);
  }
  g_.values[static_cast<size_t>(a.a)].data = left;
  g_.values[static_cast<size_t>(a.b)].data = right;
  w.data = with_product(w.data, map_.transposed, left.cast(DType::f32), right.cast(DType::f32), -a.scale, plan.first);
  w.replaced = true;  // the file stores what remains of the weight
}

int MapAdapter::zeros(int64_t rows, int64_t columns) {
  return e_.constant(stem() + ".lora_zeros", HostTensor::zeros(map_.type, {rows, columns}));
}

// Returns B times the adapter's scale, as [rank, map_out] with values only in the columns of the adapter's part.
int MapAdapter::scaled_b(const LoraAdapter& a) {
  const int scale = e_.constant(a.name + ".lora_scale", HostTensor::scalar<double>(a.scale).cast(map_.type));
  const int b = e_.node("Mul", a.name + ".lora_B/scaled", {a.b, scale}, {}, map_.type);
  std::vector<int> row = {b};
  if (a.first > 0) row.insert(row.begin(), zeros(a.rank, a.first));
  if (const int64_t rest = a.map_out - a.first - a.out; rest > 0) row.push_back(zeros(a.rank, rest));
  if (row.size() == 1) return b;
  return e_.node("Concat", a.name + ".lora_B/placed", row, {{"axis", int64_t{1}}}, map_.type);
}

void MapAdapter::block_form() {
  std::vector<int> as, bs;
  for (const LoraAdapter& a : adapters_) {
    as.push_back(a.a);
    bs.push_back(scaled_b(a));
  }
  a_ = as[0];
  b_ = bs[0];
  if (as.size() == 1) return;
  a_ = e_.node("Concat", map_.name + ".lora_A/all", as, {{"axis", int64_t{1}}}, map_.type);
  b_ = e_.node("Concat", map_.name + ".lora_B/all", bs, {{"axis", int64_t{0}}}, map_.type);
}

// Returns the node of a map that computes `rows` times W, without bias and factor.
SourceNode bare_product(const SourceNode& n, int rows) {
  SourceNode out;
  out.op = n.op;
  out.domain = n.domain;
  out.version = n.version;
  out.inputs.assign(n.inputs.begin(), n.inputs.begin() + static_cast<int64_t>(std::min<size_t>(
                                                             n.inputs.size(), n.op == "MatMulNBits" ? 5 : 3)));
  if (one_of(n.op, {"Gemm", "FusedMatMul", "MatMul"})) out.inputs.resize(2);
  out.inputs[0] = rows;
  for (const auto& [key, value] : n.attrs.items()) {
    if (!one_of(key, {"alpha", "beta", "accuracy_level"})) out.attrs.set(key, value);
  }
  return out;
}

// Adds DoRA's parameters m, and computes gain_ = m / |W + S|.
void MapAdapter::magnitudes() {
  const HostTensor w = dense_weight(g_, map_, o_.evaluate);
  if (!w) {
    fail(Exit::usage, "E_LORA",
         cat("`lora`: dora=true needs the weight of ", printable(map_.name), ", which the graph computes"),
         "leave the map out of targets, or leave dora out");
  }
  const std::vector<double> squares = column_squares(w);
  std::vector<float> square(squares.begin(), squares.end()), norm;
  for (const double x : squares) norm.push_back(static_cast<float>(std::sqrt(x)));
  std::vector<int> m;
  int64_t next = 0;  // all columns before this one have a magnitude
  const auto fixed = [&](int64_t until) {
    if (until == next) return;
    const std::vector<float> some(norm.begin() + next, norm.begin() + until);
    m.push_back(e_.constant(stem() + ".lora_norm", HostTensor::of<float>({until - next}, some)));
  };
  for (LoraAdapter& a : adapters_) {
    fixed(a.first);
    next = a.first + a.out;
    const std::vector<float> own(norm.begin() + a.first, norm.begin() + next);
    a.magnitude = e_.parameter(a.name + ".lora_magnitude", HostTensor::of<float>({a.out}, own), kReason);
    m.push_back(a.magnitude);
  }
  fixed(map_.out);
  const std::string s = stem() + ".lora_norm/";
  const int magnitude = m.size() == 1 ? m[0] : e_.node("Concat", s + "magnitude", m, {{"axis", int64_t{0}}});
  const int flipped = e_.node("Transpose", s + "At", {a_}, {{"perm", std::vector<int64_t>{1, 0}}}, map_.type);
  SourceNode product = bare_product(node(map_.uses.front().node), flipped);
  const int aw = e_.node(product.op, s + "AtW", product.inputs, product.attrs, map_.type);
  SourceNode& added = g_.nodes.back();
  added.domain = product.domain;
  added.version = product.version;
  const int b = in_fp32(b_), a32 = in_fp32(a_);
  const int at = e_.node("Transpose", s + "At_fp32", {a32}, {{"perm", std::vector<int64_t>{1, 0}}});
  const int gram = e_.node("MatMul", s + "AtA", {at, a32});
  const int two = e_.constant(s + "two", HostTensor::scalar<float>(2));
  const int twice = e_.node("Mul", s + "twice", {in_fp32(aw), two});
  const int left = e_.node("Add", s + "left", {twice, e_.node("MatMul", s + "AtAB", {gram, b})});
  const int change = e_.reduce_sum(s + "change", e_.node("Mul", s + "terms", {left, b}), 0);
  const int base = e_.constant(s + "base", HostTensor::of<float>({map_.out}, square));
  // The norm is a constant for the gradient, as in the paper (section 4.3).
  const int sum = e_.node("Add", s + "square", {base, change}, {{kDetached, std::vector<int64_t>{1}}});
  // The magnitude of a column of zeros is 0. The column stays 0.
  const int least = e_.constant(s + "least", HostTensor::scalar<float>(1e-30f));
  const int length = e_.node("Sqrt", s + "norm", {e_.node("Max", s + "bounded", {sum, least})});
  gain_ = e_.node("Div", stem() + ".lora_gain", {magnitude, length});
  if (map_.type != DType::f32) gain_ = e_.cast(stem() + ".lora_gain_low", gain_, map_.type);
}

// Returns x A B of one use, with its factor.
int MapAdapter::low_rank(const LinearMap::Use& use, int x, const std::string& name) {
  const DType t = map_.type;
  const SourceNode n = node(use.node);
  int low = -1;
  if (map_.kind == MapKind::convolution) {
    low = e_.node("Conv", name + "/A", {x, a_}, n.attrs, t);
    Attrs one;
    return e_.node("Conv", name + "/B", {low, b_}, one, t);
  }
  if (map_.kind == MapKind::table) {
    low = e_.node("Gather", name + "/A", {a_, x}, {{"axis", int64_t{0}}}, t);
  } else {
    low = e_.node("MatMul", name + "/A", {x, a_}, {}, t);
  }
  if (use.factor != 1) {
    const int factor = e_.constant(name + "/factor", HostTensor::scalar<double>(use.factor).cast(t));
    low = e_.node("Mul", name + "/scaled", {low, factor}, {}, t);
  }
  return e_.node("MatMul", name + "/B", {low, b_}, {}, t);
}

// Returns gain (sum_ - bias) + bias.
int MapAdapter::decomposed(const LinearMap::Use& use, const std::string& name) {
  const SourceNode n = node(use.node);
  const size_t at = n.op == "MatMulNBits" ? 5 : n.op == "Gemm" ? 2 : SIZE_MAX;
  int bias = at < n.inputs.size() ? n.inputs[at] : -1;
  if (const double beta = n.op == "Gemm" ? n.attrs.f("beta", 1) : 1; bias >= 0 && beta != 1) {
    const int factor = e_.constant(name + "/beta", HostTensor::scalar<double>(beta).cast(map_.type));
    bias = e_.node("Mul", name + "/bias", {bias, factor}, {}, map_.type);
  }
  int sum = sum_;
  if (bias >= 0) sum = e_.node("Sub", name + "/bare", {sum, bias}, {}, map_.type);
  const int out = e_.node("Mul", bias >= 0 ? name + "/gained" : name, {sum, gain_}, {}, map_.type);
  return bias >= 0 ? e_.node("Add", name, {out, bias}, {}, map_.type) : out;
}

void MapAdapter::apply(const LinearMap::Use& use) {
  const SourceNode n = node(use.node);
  int x = n.inputs[map_.kind == MapKind::table ? 1 : 0];
  const int y = n.outputs[0];
  const std::string name = g_.value(y).name + "/lora";
  if (o_.dropout > 0 && map_.kind != MapKind::table) {
    x = training_.node("Dropout", name + "/dropout", {x},
                       {{"ratio", o_.dropout}, {"site", static_cast<int64_t>(name_hash(name))}}, map_.type);
  }
  sum_ = e_.node("Add", o_.dora ? name + "/sum" : name, {y, low_rank(use, x, name)}, {}, map_.type);
  const int out = o_.dora ? decomposed(use, name) : sum_;
  e_.replace(y, out, g_.value(sum_).producer);
}

std::vector<LoraAdapter> MapAdapter::run() {
  for (const AdapterPlan& plan : plans_) adapters_.push_back(parameters(plan));
  block_form();
  if (o_.dora) magnitudes();
  for (const LinearMap::Use& use : map_.uses) apply(use);
  return std::move(adapters_);
}

}  // namespace

std::vector<LoraAdapter> adapt_map(SourceGraph& g, const LinearMap& map, const std::vector<AdapterPlan>& plans,
                                   const LoraOptions& options, bool base_trains) {
  const auto refuse = [&](const std::string& fact, const std::string& hint) {
    fail(Exit::usage, "E_LORA", cat("`lora`: ", fact), hint);
  };
  if (options.dora && !map.is_product())
    refuse(cat("dora=true does not support ", map.kind == MapKind::table ? "tables" : "convolutions", ", such as ",
               printable(map.name)),
           "leave it out of targets");
  if (options.dora && base_trains)
    refuse(cat("dora=true takes the norm of ", printable(map.name), " as fixed, and `trainable` trains this weight"),
           "leave it out of `trainable`, or out of targets");
  if (options.init == LoraInit::pissa && (map.kind != MapKind::product || !map.mergeable))
    refuse(cat("init=pissa changes the weight, and ", printable(map.name),
               map.kind == MapKind::product ? " is read by other nodes as well" : " is not a floating-point matrix"),
           "leave it out of targets, or take init=kaiming");
  const bool tied = std::any_of(g.values.begin(), g.values.end(), [&](const SourceValue& v) {
    return v.tied_to == map.weight || (v.tied_to >= 0 && v.name == g.value(map.weight).name);
  });
  if (options.init == LoraInit::pissa && tied)
    refuse(cat("init=pissa changes the weight, and ", printable(map.name), " is tied to another tensor"),
           "`tie_weights` none, or take init=kaiming");
  return MapAdapter(g, map, plans, options).run();
}

}  // namespace amp
