// Walks backward from an output to the last linear map. Weight and bias must be untied parameters that nothing else
// reads, because resizing them would change other parts of the model.
#include "importer/surgery/classifier.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "importer/surgery/edit.h"

namespace amp {
namespace {

bool passes(const SourceNode& n) {
  static const std::set<std::string> ops = {"Softmax",           "LogSoftmax",  "Sigmoid",    "Relu",   "Dropout",
                                            "GlobalAveragePool", "AveragePool", "ReduceMean", "Resize", "Upsample"};
  return n.domain.empty() && (ops.count(n.op) || is_plain_view(n, true));
}

class ClassifierFinder {
 public:
  explicit ClassifierFinder(const SourceGraph& g) : g_(g), consumers_(g.consumers()) {}

  std::optional<Classifier> find(int v) const {
    for (int steps = 0; steps < 16; ++steps) {
      const SourceNode* n = producer(v);
      if (!n) return std::nullopt;
      if (n->domain.empty() && (n->op == "Gemm" || n->op == "MatMul" || n->op == "Conv")) return linear(v, -1);
      if (n->op == "Add" && n->domain.empty() && n->inputs.size() == 2) {
        for (const size_t i : {0, 1}) {
          const int x = n->inputs[1 - i];
          if (const SourceNode* m = producer(x); !m || m->op != "MatMul" || uses(x) != 1) continue;
          int64_t axis = 0;
          const int b = parameter(n->inputs[i], axis);
          if (b >= 0) return linear(x, b);
        }
        return std::nullopt;
      }
      if (!passes(*n)) return std::nullopt;
      v = n->inputs.at(0);
    }
    return std::nullopt;
  }

 private:
  const SourceNode* producer(int v) const {
    const int p = v < 0 ? -1 : g_.values[static_cast<size_t>(v)].producer;
    return p < 0 ? nullptr : &g_.nodes[static_cast<size_t>(p)];
  }
  size_t uses(int v) const { return consumers_[static_cast<size_t>(v)].size(); }

  // Returns the untied parameter from which v is computed by a chain of Identity, Cast and 2-D Transpose. Returns -1 if
  // there is no such chain or if other nodes read a value of the chain. A Transpose flips `axis`.
  int parameter(int v, int64_t& axis) const {
    while (v >= 0 && uses(v) == 1) {
      const SourceValue& x = g_.values[static_cast<size_t>(v)];
      if (x.kind == SourceKind::parameter) return x.tied_to < 0 && !is_master(v) ? v : -1;
      const SourceNode* n = producer(v);
      if (!n || !n->domain.empty()) return -1;
      if (n->op == "Transpose") {
        const std::vector<int64_t> perm = n->attrs.ints("perm", {1, 0});
        if (perm != std::vector<int64_t>{1, 0}) return -1;
        axis = 1 - axis;
      } else if (n->op != "Identity" && n->op != "Cast") {
        return -1;
      }
      v = n->inputs.at(0);
    }
    return -1;
  }
  bool is_master(int v) const {
    return std::any_of(g_.values.begin(), g_.values.end(), [&](const SourceValue& x) { return x.tied_to == v; });
  }

  std::optional<Classifier> linear(int v, int bias) const {
    Classifier c;
    c.node = g_.values[static_cast<size_t>(v)].producer;
    const SourceNode& n = g_.nodes[static_cast<size_t>(c.node)];
    c.image = n.op == "Conv";
    if (c.image && n.attrs.i("group", 1) != 1) return std::nullopt;
    c.weight_axis = n.op == "Conv" ? 0 : n.op == "Gemm" && n.attrs.i("transB", 0) != 0 ? 0 : 1;
    if (n.inputs.size() < 2) return std::nullopt;
    c.weight = parameter(n.inputs[1], c.weight_axis);
    if (c.weight < 0) return std::nullopt;
    const Dims& d = g_.values[static_cast<size_t>(c.weight)].data.dims();
    if (d.size() != (c.image ? 4u : 2u)) return std::nullopt;
    c.labels = d[static_cast<size_t>(c.weight_axis)];
    c.bias = bias;
    if (n.op != "MatMul" && n.inputs.size() > 2 && n.inputs[2] >= 0) {
      int64_t axis = 0;
      c.bias = parameter(n.inputs[2], axis);
      if (c.bias < 0) return std::nullopt;
    }
    if (c.bias >= 0 && g_.values[static_cast<size_t>(c.bias)].data.numel() != c.labels) return std::nullopt;
    return c;
  }

  const SourceGraph& g_;
  const std::vector<std::vector<int>> consumers_;
};

}  // namespace

std::optional<Classifier> find_classifier(const SourceGraph& g, int output) { return ClassifierFinder(g).find(output); }

std::vector<std::string> resize_classifier(SourceGraph& g, const Classifier& c, int64_t labels, uint64_t seed) {
  std::vector<std::string> lines;
  const auto renew = [&](int v, HostTensor t, const char* how) {
    SourceValue& x = g.values[static_cast<size_t>(v)];
    lines.push_back(cat("replaced: ", printable(g.shown(v)), " ", to_string(x.data.dims()), " -> ", to_string(t.dims()),
                        ", ", how));
    x.data = t.cast(x.data.dtype());
    x.dims.clear();
    for (const int64_t d : t.dims()) x.dims.push_back({d, ""});
    x.replaced = true;
    x.trainable = true;
    x.reason = "new classifier";
  };
  Dims d = g.values[static_cast<size_t>(c.weight)].data.dims();
  d[static_cast<size_t>(c.weight_axis)] = labels;
  const uint64_t stream = name_hash(g.values[static_cast<size_t>(c.weight)].name);
  renew(c.weight, normal_tensor(d, 0.02, seed, stream), "normal(0, 0.02) from `seed`");
  if (c.bias >= 0) {
    Dims b = g.values[static_cast<size_t>(c.bias)].data.dims();
    for (int64_t& n : b) n = n == c.labels ? labels : n;
    renew(c.bias, HostTensor::zeros(DType::f32, b), "zeros");
  }
  const std::vector<char> after = downstream_of(g, {c.weight});
  for (size_t v = 0; v < g.values.size(); ++v) {
    SourceValue& x = g.values[v];
    if (!after[v] || x.kind != SourceKind::temp || !x.rank_known || x.dims.empty()) continue;
    Dim& classes = c.image ? x.dims[std::min<size_t>(1, x.dims.size() - 1)] : x.dims.back();
    if (classes.value == c.labels) {
      classes.value = labels;
    } else if (classes.value >= 0) {
      x.rank_known = false;  // the new shape of other values is unknown, and a declared shape could be wrong
    }
  }
  return lines;
}

}  // namespace amp
