#include "importer/head.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/philox.h"
#include "base/text.h"

namespace amp {

namespace {

bool depends_on_parameters(const SourceGraph& g, int value) {
  std::vector<bool> seen(g.values.size(), false);
  std::vector<int> stack{value};
  while (!stack.empty()) {
    const int v = stack.back();
    stack.pop_back();
    if (v < 0 || seen[static_cast<size_t>(v)]) continue;
    seen[static_cast<size_t>(v)] = true;
    const SourceValue& x = g.values[static_cast<size_t>(v)];
    if (x.kind == SourceKind::parameter) return true;
    if (x.producer >= 0) {
      const auto& in = g.nodes[static_cast<size_t>(x.producer)].inputs;
      stack.insert(stack.end(), in.begin(), in.end());
    }
  }
  return false;
}

int find_mask(const SourceGraph& g) {
  for (const int v : g.inputs) {
    const std::string& n = g.values[static_cast<size_t>(v)].name;
    if (n == "attention_mask" || n == "input_mask") return v;
  }
  return -1;
}

// Normal(0, 0.02) by Box-Muller from Philox.
HostTensor normal_weights(Dims dims, uint64_t seed) {
  HostTensor t = HostTensor::empty(DType::f32, std::move(dims));
  float* p = t.as_mutable<float>();
  for (int64_t i = 0; i < t.numel(); i += 2) {
    const PhiloxBlock b = philox(seed, 0x68656164u, static_cast<uint64_t>(i));
    const double u = (static_cast<double>(b.v[0]) + 1) / 4294967297.0, v = static_cast<double>(b.v[1]) / 4294967296.0;
    const double r = 0.02 * std::sqrt(-2 * std::log(u)), angle = 6.283185307179586 * v;
    p[i] = static_cast<float>(r * std::cos(angle));
    if (i + 1 < t.numel()) p[i + 1] = static_cast<float>(r * std::sin(angle));
  }
  return t;
}

class Appender {
 public:
  explicit Appender(SourceGraph& g) : g_(g) {
    const auto it = g.opsets.find("");
    version_ = it == g.opsets.end() ? 17 : it->second;
  }
  int64_t version() const { return version_; }
  int value(const std::string& name, SourceKind kind, DType t, HostTensor data = {}) {
    SourceValue v;
    v.name = g_.fresh_name(name);
    v.kind = kind;
    v.dtype = t;
    v.dtype_known = true;
    v.data = data;
    if (data) {
      v.rank_known = true;
      for (const int64_t d : data.dims()) v.dims.push_back({d, ""});
    }
    return g_.add_value(std::move(v));
  }
  int constant(const std::string& name, HostTensor t) {
    const DType type = t.dtype();
    return value(name, SourceKind::constant, type, std::move(t));
  }
  int node(const std::string& op, const std::string& name, std::vector<int> in, Attrs attrs = {},
           DType t = DType::f32) {
    const int out = value(name, SourceKind::temp, t);
    SourceNode n;
    n.name = "/" + name;
    n.op = op;
    n.version = version_;
    n.attrs = std::move(attrs);
    n.inputs = std::move(in);
    n.outputs = {out};
    g_.add_node(std::move(n));
    return out;
  }

 private:
  SourceGraph& g_;
  int64_t version_;
};

// axes: an attribute before opset 13, an input from then on.
int unsqueeze(Appender& a, const std::string& name, int x, int64_t axis, DType t) {
  if (a.version() < 13) return a.node("Unsqueeze", name, {x}, {{"axes", std::vector<int64_t>{axis}}}, t);
  return a.node("Unsqueeze", name, {x, a.constant(name + "_axes", HostTensor::of<int64_t>({1}, {axis}))}, {}, t);
}
int reduce_sum(Appender& a, const std::string& name, int x, int64_t axis) {
  if (a.version() < 13)
    return a.node("ReduceSum", name, {x}, {{"axes", std::vector<int64_t>{axis}}, {"keepdims", int64_t{0}}});
  return a.node("ReduceSum", name, {x, a.constant(name + "_axes", HostTensor::of<int64_t>({1}, {axis}))},
                {{"keepdims", int64_t{0}}});
}

int pool(Appender& a, const SourceGraph& g, int x, const std::string& pooling) {
  if (pooling == "cls") {
    return a.node("Gather", "head/cls", {x, a.constant("head/cls_index", HostTensor::scalar<int64_t>(0))},
                  {{"axis", int64_t{1}}});
  }
  const int mask_input = find_mask(g);
  if (mask_input < 0) {
    if (a.version() < 18)
      return a.node("ReduceMean", "head/mean", {x}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
    return a.node("ReduceMean", "head/mean", {x, a.constant("head/mean_axes", HostTensor::of<int64_t>({1}, {1}))},
                  {{"keepdims", int64_t{0}}});
  }
  const int mask =
      unsqueeze(a, "head/mask", a.node("Cast", "head/mask_float", {mask_input}, {{"to", int64_t{1}}}), 2, DType::f32);
  const int sum = reduce_sum(a, "head/sum", a.node("Mul", "head/masked", {x, mask}), 1);
  const int count = reduce_sum(a, "head/count", mask, 1);
  const int floor = a.constant("head/one", HostTensor::scalar<float>(1.0f));  // an empty row divides by 1
  return a.node("Div", "head/mean", {sum, a.node("Max", "head/tokens", {count, floor})});
}

}  // namespace

HeadChoice choose_head(const SourceGraph& g, const HeadOptions& o) {
  const auto dims = [&](int v) -> const Dims& {
    static const Dims none;
    return static_cast<size_t>(v) < o.probe.size() ? o.probe[static_cast<size_t>(v)] : none;
  };
  HeadChoice c;
  if (!o.from.empty()) {
    c.source_value = g.find(o.from);
    if (c.source_value < 0) {
      std::vector<std::string> names;
      for (const SourceValue& v : g.values) names.push_back(v.name);
      const std::string near = nearest(o.from, names);
      fail(Exit::usage, "E_HEAD", cat("--head_from: the model has no value '", printable(o.from), "'"),
           near.empty() ? "" : "did you mean '" + near + "'?");
    }
    c.needed = true;
    c.reason = "--head_from";
  } else {
    int sentence = -1, hidden = -1;
    for (const int v : g.outputs) {
      const SourceValue& x = g.values[static_cast<size_t>(v)];
      if (x.kind != SourceKind::temp || dims(v).empty() || !depends_on_parameters(g, v)) continue;
      if (dims(v).size() == 2 && dims(v)[1] == o.num_labels) {
        c.source_value = v;
        c.reason = cat("output '", printable(x.name), "' has one value per class already");
        return c;
      }
      if (dims(v).size() == 2 && dims(v)[1] > 1) sentence = v;
      if (dims(v).size() == 3) hidden = v;
    }
    c.needed = true;
    c.source_value = sentence >= 0 && o.pooling == "auto" ? sentence : hidden >= 0 ? hidden : sentence;
    if (c.source_value < 0) {
      fail(Exit::unsupported, "E_HEAD",
           "no output of the model is a sentence embedding [B, H] or hidden states [B, S, H]",
           "name the tensor to classify with --head_from NAME");
    }
    c.reason = sentence == c.source_value ? "the sentence embedding [B, H] among the outputs"
                                          : "the hidden states [B, S, H] among the outputs";
  }
  const Dims& d = dims(c.source_value);
  if (d.size() != 2 && d.size() != 3) {
    fail(Exit::unsupported, "E_HEAD",
         cat("a head needs [B, H] or [B, S, H]; '", printable(g.values[static_cast<size_t>(c.source_value)].name),
             "' has shape ", to_string(d)));
  }
  c.pooling = d.size() == 2 ? "none" : o.pooling == "auto" ? "mean" : o.pooling;
  return c;
}

std::string attach_head(SourceGraph& g, const HeadChoice& c, const HeadOptions& o) {
  Appender a(g);
  const int64_t width = o.probe.at(static_cast<size_t>(c.source_value)).back();
  int x = c.pooling == "none" ? c.source_value : pool(a, g, c.source_value, c.pooling);
  if (o.dropout > 0) x = a.node("Dropout", "head/dropout", {x}, {{"ratio", o.dropout}, {"site", int64_t{0x68656164}}});
  const auto parameter = [&](const std::string& name, HostTensor t) {
    const int v = a.value(name, SourceKind::parameter, DType::f32, std::move(t));
    g.values[static_cast<size_t>(v)].trainable = true;
    g.values[static_cast<size_t>(v)].reason = "new head";
    return v;
  };
  const int w = parameter("classifier.weight", normal_weights({o.num_labels, width}, o.seed));
  const int b = parameter("classifier.bias", HostTensor::zeros(DType::f32, {o.num_labels}));
  const int logits = a.node("Gemm", "logits", {x, w, b}, {{"transB", int64_t{1}}});
  SourceValue& v = g.values[static_cast<size_t>(logits)];
  v.rank_known = true;
  Dim batch;
  const SourceValue& in = g.values[static_cast<size_t>(g.inputs.at(0))];
  if (in.rank_known && !in.dims.empty()) batch = in.dims[0];
  v.dims = {batch, {o.num_labels, ""}};
  g.outputs.push_back(logits);
  return v.name;
}

}  // namespace amp
