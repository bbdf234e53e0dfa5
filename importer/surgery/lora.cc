// Implements LoRA on a SourceGraph. LoraFinder lists weights that only linear maps of one orientation and type read.
// Adapters are nodes of Place::training if they are merged on export, else of Place::added. merge_lora() sums in
// double.
#include "importer/surgery/lora.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "importer/surgery/edit.h"

namespace amp {
namespace {

bool matches(const std::string& glob, const SourceValue& v) {
  return glob_match(glob, v.name) || (!v.alias.empty() && glob_match(glob, v.alias));
}

// One use of a weight by a linear map.
struct Linear {
  int node = -1;
  int weight = -1;
  bool transposed = false;  // the weight is stored [out, in]
  double factor = 1;        // Gemm's alpha
  DType type = DType::f32;  // of the map's arithmetic: the weight's type, or the type that it is cast to
};

class LoraFinder {
 public:
  explicit LoraFinder(const SourceGraph& g) : g_(g), consumers_(g.consumers()) {}

  // Returns the weights that only linear maps read, with these maps.
  std::map<int, std::vector<Linear>> find() const {
    std::map<int, std::vector<Linear>> found;
    for (size_t v = 0; v < g_.values.size(); ++v) {
      const SourceValue& x = g_.values[v];
      if (x.kind != SourceKind::parameter || x.data.rank() != 2) continue;
      std::vector<Linear> uses;
      const bool only = follow(static_cast<int>(v), false, x.data.dtype(), uses) && !uses.empty();
      const auto flipped = [&](const Linear& l) {
        return l.transposed != uses.front().transposed || l.type != uses.front().type;
      };
      if (only && std::none_of(uses.begin(), uses.end(), flipped)) {
        for (Linear& l : uses) l.weight = static_cast<int>(v);
        found[static_cast<int>(v)] = std::move(uses);
      }
    }
    return found;
  }

 private:
  // Appends the linear maps that read v, directly or through Transpose, Identity and Cast, to `uses`. Returns false if
  // another node or a graph output reads v.
  bool follow(int v, bool transposed, DType type, std::vector<Linear>& uses) const {
    for (const int c : consumers_[static_cast<size_t>(v)]) {
      const SourceNode& n = g_.nodes[static_cast<size_t>(c)];
      // FusedGemm is excluded, because it ends in an activation.
      const bool fused = n.domain == "com.microsoft" && n.op == "FusedMatMul";
      const bool linear = fused || (n.domain.empty() && (n.op == "MatMul" || n.op == "Gemm"));
      if ((!n.domain.empty() && !fused) || n.inputs.size() < (linear ? 2u : 1u)) return false;
      if (linear) {
        const bool plain =
            n.attrs.i("transA", 0) == 0 && n.attrs.i("transBatchA", 0) == 0 && n.attrs.i("transBatchB", 0) == 0;
        if (n.inputs[1] != v || n.inputs[0] == v || !plain || n.outputs.size() != 1) return false;
        uses.push_back({c, -1, transposed != (n.attrs.i("transB", 0) != 0),
                        n.op == "MatMul" ? 1.0 : static_cast<double>(n.attrs.f("alpha", 1)), type});
      } else if (n.op == "Transpose" && n.attrs.ints("perm", {1, 0}) == std::vector<int64_t>{1, 0}) {
        if (!follow(n.outputs.at(0), !transposed, type, uses)) return false;
      } else if (n.op == "Identity" || n.op == "Cast") {
        const int64_t to =
            n.op == "Cast" ? n.attrs.i("to", 1) : 0;  // TensorProto: 1 float, 10 float16, 11 double, 16 bfloat16
        const DType cast = to == 10 ? DType::f16 : to == 16 ? DType::bf16 : to == 11 ? DType::f64 : DType::f32;
        if (!follow(n.outputs.at(0), transposed, to ? cast : type, uses)) return false;
      } else {
        return false;
      }
    }
    return std::none_of(g_.outputs.begin(), g_.outputs.end(), [&](int o) { return o == v; });
  }

  const SourceGraph& g_;
  const std::vector<std::vector<int>> consumers_;
};

[[noreturn]] void no_target(const SourceGraph& g, const std::map<int, std::vector<Linear>>& linear,
                            const std::string& glob) {
  std::vector<std::string> names;
  for (const auto& [v, uses] : linear) names.push_back(g.shown(v));
  const std::string near = nearest(glob, names);
  if (names.size() > 6) names.resize(6);
  fail(Exit::usage, "E_LORA",
       glob.empty() ? "`lora`: the model has no MatMul or Gemm with a weight of its own"
                    : cat("`lora`: targets=", printable(glob), " matches no weight of a MatMul or Gemm"),
       names.empty()   ? "leave `lora` out"
       : !near.empty() ? cat("did you mean '", printable(near), "'?")
                       : cat("there are ", printable(join(names, ", ")), ", ..."));
}

bool is_new(const SourceGraph& g, int v) {
  const std::string& why = g.values[static_cast<size_t>(v)].reason;
  return why == "new head" || why == "new classifier";
}

LoraAdapter adapt(SourceGraph& g, int weight, const std::vector<Linear>& uses, const LoraOptions& o) {
  const SourceValue w = g.values[static_cast<size_t>(weight)];
  const std::string stem = g.shown(weight);
  const DType t = uses.front().type;
  LoraAdapter a;
  a.weight = weight;
  a.transposed = uses.front().transposed;
  a.scale = o.alpha / static_cast<double>(o.r);
  const int64_t in = w.data.dims()[a.transposed ? 1 : 0], out = w.data.dims()[a.transposed ? 0 : 1];
  GraphEditor e(g, o.keep ? Place::added : Place::training), training(g, Place::training);
  const HostTensor first = uniform_tensor({in, o.r}, 1 / std::sqrt(static_cast<double>(in)), o.seed, name_hash(stem));
  a.a = e.parameter(stem + ".lora_A", first.cast(t), "LoRA");
  a.b = e.parameter(stem + ".lora_B", HostTensor::zeros(t, {o.r, out}), "LoRA");
  for (const Linear& l : uses) {
    int x = g.nodes[static_cast<size_t>(l.node)].inputs[0];
    const int y = g.nodes[static_cast<size_t>(l.node)].outputs[0];
    const std::string name = g.values[static_cast<size_t>(y)].name + "/lora";
    if (o.dropout > 0) {
      x = training.node("Dropout", name + "/dropout", {x},
                        {{"ratio", o.dropout}, {"site", static_cast<int64_t>(name_hash(name))}}, t);
    }
    const int low = e.node("MatMul", name + "/A", {x, a.a}, {}, t);
    const int up = e.node("MatMul", name + "/B", {low, a.b}, {}, t);
    const int scale = e.constant(name + "/scale", HostTensor::scalar<double>(a.scale * l.factor).cast(t));
    const int scaled = e.node("Mul", name + "/scaled", {up, scale}, {}, t);
    const int sum = e.node("Add", name, {y, scaled}, {}, t);
    e.replace(y, sum, g.values[static_cast<size_t>(sum)].producer);
  }
  return a;
}

HostTensor transposed(const HostTensor& t) {
  const int64_t rows = t.dims()[0], columns = t.dims()[1];
  HostTensor out = HostTensor::empty(DType::f32, {columns, rows});
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) out.as_mutable<float>()[j * rows + i] = t.as<float>()[i * columns + j];
  }
  return out;
}

// Returns w + scale * a b, summed in double. w is [in, out], or [out, in] if flipped.
HostTensor sum(const HostTensor& w, const HostTensor& a, const HostTensor& b, double scale, bool flipped) {
  const int64_t in = a.dims()[0], r = a.dims()[1], n = b.dims()[1];
  HostTensor out = HostTensor::empty(DType::f32, w.dims());
  const float *pa = a.as<float>(), *pb = b.as<float>(), *pw = w.as<float>();
  float* p = out.as_mutable<float>();
  for (int64_t i = 0; i < in; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double delta = 0;
      for (int64_t k = 0; k < r; ++k) delta += static_cast<double>(pa[i * r + k]) * pb[k * n + j];
      const int64_t to = flipped ? j * in + i : i * n + j;
      p[to] = static_cast<float>(pw[to] + scale * delta);
    }
  }
  return out;
}

}  // namespace

LoraOptions parse_lora(const std::string& text) {
  LoraOptions o;
  const auto refuse = [&](const std::string& part) {
    fail(Exit::usage, "E_LORA", cat("`lora` ", printable(text), ": '", printable(part), "' is not understood"),
         "write r=8,alpha=16,targets=GLOB[,targets=GLOB][,dropout=P]");
  };
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    at = end + 1;
    const size_t eq = part.find('=');
    const std::string key = part.substr(0, eq), value = eq == std::string::npos ? "" : part.substr(eq + 1);
    char* rest = nullptr;
    const double x = std::strtod(value.c_str(), &rest);
    const bool number = !value.empty() && *rest == '\0' && std::isfinite(x);
    if (key == "r" && number && x >= 1 && x == std::floor(x) && x <= 65536) {
      o.r = static_cast<int64_t>(x);
    } else if (key == "alpha" && number && x > 0) {
      o.alpha = x;
    } else if (key == "dropout" && number && x >= 0 && x < 1) {
      o.dropout = x;
    } else if (key == "targets" && !value.empty()) {
      o.targets.push_back(value);
    } else {
      refuse(part);
    }
  }
  return o;
}

std::vector<LoraAdapter> add_lora(SourceGraph& g, const LoraOptions& o, std::vector<std::string>& lines) {
  std::map<int, std::vector<Linear>> linear = LoraFinder(g).find();
  for (const std::string& glob : o.targets) {
    if (std::none_of(linear.begin(), linear.end(),
                     [&](const auto& l) { return matches(glob, g.values[static_cast<size_t>(l.first)]); }))
      no_target(g, linear, glob);
  }
  std::erase_if(linear, [&](const auto& l) {
    const SourceValue& v = g.values[static_cast<size_t>(l.first)];
    if (is_new(g, l.first)) return true;
    return !o.targets.empty() &&
           std::none_of(o.targets.begin(), o.targets.end(), [&](const std::string& glob) { return matches(glob, v); });
  });
  if (linear.empty()) no_target(g, linear, "");

  for (size_t i = 0; i < g.values.size(); ++i) {
    SourceValue& v = g.values[i];
    if (v.kind != SourceKind::parameter || !v.trainable || is_new(g, static_cast<int>(i))) continue;
    if (std::any_of(o.trainable.begin(), o.trainable.end(), [&](const std::string& glob) { return matches(glob, v); }))
      continue;
    v.trainable = false;
    v.reason = cat("frozen by `lora` (", v.reason, ")");
  }
  std::vector<LoraAdapter> adapters;
  std::vector<std::string> names;
  int64_t elements = 0;
  for (const auto& [weight, uses] : linear) {
    adapters.push_back(adapt(g, weight, uses, o));
    names.push_back(printable(g.shown(weight)));
    elements += g.values[static_cast<size_t>(adapters.back().a)].data.numel() +
                g.values[static_cast<size_t>(adapters.back().b)].data.numel();
  }
  sort_nodes(g);
  lines.push_back(cat("lora r=", o.r, " alpha=", o.alpha, o.dropout > 0 ? cat(" dropout=", o.dropout) : "", " on ",
                      names.size(), " weights, ", with_thousands(elements), " new values: ", join(names, ", ")));
  return adapters;
}

std::vector<TrainedTensor> merge_lora(const SourceGraph& g, const std::vector<LoraAdapter>& adapters,
                                      std::vector<TrainedTensor> trained) {
  std::map<int, HostTensor> base;  // parameter -> its fp32 tensor before merging
  std::map<int, size_t> at;
  for (size_t i = 0; i < trained.size(); ++i) {
    at[trained[i].source_value] = i;
    base[trained[i].source_value] = trained[i].value;
  }
  const auto set = [&](int v, HostTensor t) {
    const auto it = at.find(v);
    if (it != at.end()) {
      trained[it->second].value = std::move(t);
    } else {
      at[v] = trained.size();
      trained.push_back({v, std::move(t)});
    }
  };
  const auto unmerged = [&](int v) {  // returns the value before merging, in the value's own layout
    const SourceValue& x = g.values[static_cast<size_t>(v)];
    const HostTensor master = base.at(x.tied_to < 0 ? v : x.tied_to);
    return x.tied_to >= 0 && x.tied_transposed ? transposed(master) : master;
  };
  std::map<int, HostTensor> merged;
  for (const LoraAdapter& l : adapters) {
    merged[l.weight] = sum(unmerged(l.weight), base.at(l.a), base.at(l.b), l.scale, l.transposed);
    // The merged weight differs from the tensors that were tied to it during training, so they are written separately.
    for (size_t v = 0; v < g.values.size(); ++v) {
      if (g.values[v].kind == SourceKind::parameter && g.values[v].tied_to == l.weight)
        set(static_cast<int>(v), unmerged(static_cast<int>(v)));
    }
  }
  for (auto& [v, t] : merged) set(v, std::move(t));
  return trained;
}

}  // namespace amp
