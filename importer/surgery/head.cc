// choose_head() selects the value that the head reads, by the ranks of the outputs for a small probe batch.
// attach_head() then adds pooling, dropout (training only) and a linear map or convolution.
#include "importer/surgery/head.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "importer/surgery/edit.h"
#include "importer/surgery/pooling.h"

namespace amp {

namespace {

bool depends_on_parameters(const SourceGraph& g, int value) {
  const std::vector<char> needed = upstream_of(g, {value});
  for (size_t v = 0; v < g.values.size(); ++v) {
    if (needed[v] && g.values[v].kind == SourceKind::parameter) return true;
  }
  return false;
}

int pool(GraphEditor& e, int x, const std::string& pooling, size_t rank) {
  if (pooling == "global") {
    std::vector<int64_t> axes;
    for (size_t i = 2; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
    return e.reduce_mean("head/mean", x, axes);
  }
  return pool_hidden_states(e, x, pooling);
}

bool pooled(const std::string& kind) {
  return kind == "classification" || kind == "regression" || kind == "multilabel" || kind == "embedding";
}

// True if the width that a head would read, or the number of classes, changes with the length or size of the input. The
// values are then scores of positions. A value of another rank has no such axis.
bool open_width(const Dims& d) { return (d.size() == 2 || d.size() == 4 ? d[1] : d.size() == 3 ? d[2] : 0) < 0; }

// True if an output of these dims has one value per class on the axis that this kind of head (HeadOptions::kind) needs.
bool fits(const std::string& kind, const Dims& d, int64_t labels) {
  if (open_width(d)) return false;
  if (kind == "token") return d.size() == 3 && d[2] == labels;
  if (kind == "segmentation") return d.size() == 4 && d[1] == labels;
  if (kind == "regression" && labels == 1 && d.size() == 1) return true;
  return pooled(kind) && d.size() == 2 && d[1] == labels;
}

// Returns the ranks of the values that a kind of head can read, in order of preference.
std::vector<size_t> ranks(const HeadOptions& o) {
  if (o.kind == "token" || o.kind == "span") return {3};
  if (o.kind == "segmentation") return {4};
  if (o.kind == "embedding") return {3, 4, 2};
  return o.pooling == "auto" ? std::vector<size_t>{2, 3, 4} : std::vector<size_t>{3, 2, 4};
}

// Finds the model's own embedding [B, H] among the outputs, stores it in c and returns true. The output must be named
// after an embedding. If there are no hidden states to pool, it may have any name except logits.
bool own_embedding(const SourceGraph& g, const HeadOptions& o, HeadChoice& c) {
  const auto rank = [&](int v) {
    return static_cast<size_t>(v) < o.probe.size() ? o.probe[static_cast<size_t>(v)].size() : 0;
  };
  const bool hidden = std::any_of(g.outputs.begin(), g.outputs.end(),
                                  [&](int v) { return rank(v) == 3 && depends_on_parameters(g, v); });
  if (hidden && o.pooling != "auto") return false;  // another pooling than the model's own was requested
  for (const int v : g.outputs) {
    const std::string& name = g.values[static_cast<size_t>(v)].name;
    const bool named = name.find("embedding") != std::string::npos || name.find("embeds") != std::string::npos;
    if (rank(v) != 2 || open_width(o.probe[static_cast<size_t>(v)]) || name == "logits" ||
        !depends_on_parameters(g, v) || (c.source_value >= 0 && !named))
      continue;
    c.source_value = v;
    c.outputs = {name};
    c.reason = cat("output '", printable(name), "' ", to_string(o.probe[static_cast<size_t>(v)]));
    if (named) return true;
  }
  if (c.source_value >= 0 && !hidden) return true;
  c = {};
  return false;
}

std::string shape_of_rank(size_t rank) {
  return rank == 2   ? "the embedding [B, H] among the outputs"
         : rank == 3 ? "the hidden states [B, S, H] among the outputs"
                     : "the feature map [B, C, H, W] among the outputs";
}

int named_value(const SourceGraph& g, const std::string& from) {
  const int v = g.find(from);
  if (v >= 0) return v;
  std::vector<std::string> names;
  for (const SourceValue& x : g.values) names.push_back(x.name);
  const std::string near = nearest(from, names);
  fail(Exit::usage, "E_HEAD_FROM", cat("`head_from`: the model has no value '", printable(from), "'"),
       near.empty() ? "" : "did you mean '" + near + "'?");
}

[[noreturn]] void nothing_to_read(const std::vector<size_t>& wanted) {
  fail(Exit::unsupported, "E_HEAD",
       wanted.front() == 4 ? "no output of the model is a feature map [B, C, H, W]"
       : wanted.size() == 1
           ? "no output of the model is hidden states [B, S, H]"
           : "no output of the model is an embedding [B, H], hidden states [B, S, H] or a feature map [B, C, H, W]",
       "name the tensor that the head is to read with `head_from` NAME");
}

// Throws E_HEAD if a head cannot read the value with the shape d, because its rank or width is wrong.
void require_readable(const SourceGraph& g, const std::string& kind, const std::vector<size_t>& wanted, int value,
                      const Dims& d) {
  const std::string name = printable(g.values[static_cast<size_t>(value)].name);
  if (std::find(wanted.begin(), wanted.end(), d.size()) == wanted.end()) {
    fail(Exit::unsupported, "E_HEAD",
         cat("a ", kind, " head reads ",
             wanted.front() == 4  ? "[B, C, H, W]"
             : wanted.size() == 1 ? "[B, S, H]"
                                  : "[B, H], [B, S, H] or [B, C, H, W]",
             "; '", name, "' has shape ", to_string(d)));
  }
  if (open_width(d)) {
    fail(Exit::unsupported, "E_HEAD",
         cat("a head cannot read '", name, "' of shape ", to_string(d),
             ": -1 changes with the length or size of the input"),
         "name another tensor with `head_from` NAME");
  }
}

}  // namespace

HeadChoice choose_head(const SourceGraph& g, const HeadOptions& o) {
  const auto dims = [&](int v) -> const Dims& {
    static const Dims none;
    return static_cast<size_t>(v) < o.probe.size() ? o.probe[static_cast<size_t>(v)] : none;
  };
  const std::vector<size_t> wanted = ranks(o);
  HeadChoice c;
  // 1. A value that the user named takes precedence over all rules.
  if (!o.from.empty()) {
    c.source_value = named_value(g, o.from);
    c.needed = true;
    c.reason = "`head_from`";
  } else {
    std::map<size_t, int> last;  // rank -> the last output of this rank
    // 2. If an output already computes what the task needs, it is used, unless a new head was requested.
    if (!o.always && o.kind == "span" && g.find("start_logits") >= 0 && g.find("end_logits") >= 0) {
      c.source_value = g.find("start_logits");
      c.outputs = {"start_logits", "end_logits"};
      c.reason = "outputs start_logits and end_logits";
      return c;
    }
    if (o.kind == "embedding" && !o.always && own_embedding(g, o, c)) return c;
    for (const int v : g.outputs) {
      const SourceValue& x = g.values[static_cast<size_t>(v)];
      if (x.kind != SourceKind::temp || dims(v).empty() || open_width(dims(v)) || !depends_on_parameters(g, v))
        continue;
      if (!o.always && fits(o.kind, dims(v), o.num_labels)) {
        c.source_value = v;
        c.outputs = {x.name};
        c.reason = cat("output '", printable(x.name), "' has ", o.num_labels, o.num_labels == 1 ? " value" : " values",
                       " per item already");
        return c;
      }
      if (dims(v).size() != 2 || dims(v)[1] > 1) last[dims(v).size()] = v;
    }
    // 3. Otherwise a new head reads the last output of the preferred rank.
    c.needed = true;
    for (const size_t rank : wanted) {
      if (c.source_value >= 0 || !last.count(rank)) continue;
      c.source_value = last[rank];
      c.reason = shape_of_rank(rank);
    }
    if (c.source_value < 0) nothing_to_read(wanted);
  }
  const Dims& d = dims(c.source_value);
  require_readable(g, o.kind, wanted, c.source_value, d);
  c.pooling = !pooled(o.kind) || d.size() == 2                    ? "none"
              : d.size() == 4                                     ? "global"
              : o.pooling != "auto"                               ? o.pooling
              : o.kind == "embedding" && !o.model_pooling.empty() ? o.model_pooling
                                                                  : "mean";
  c.normalized = c.pooling != "none" && c.pooling == o.model_pooling && o.pooling == "auto" && o.normalize;
  return c;
}

namespace {

// Collects the graph outputs that a new head adds.
class Outputs {
 public:
  Outputs(SourceGraph& g, const SourceValue& source) : g_(g), source_(source) {}
  std::vector<std::string> names;

  Dim source_dim(size_t i) const { return source_.rank_known && i < source_.dims.size() ? source_.dims[i] : Dim{}; }
  Dim batch() const {
    Dim own = source_dim(0);
    if (own.value >= 0 || !own.symbol.empty() || g_.inputs.empty()) return own;
    const SourceValue& in = g_.values[static_cast<size_t>(g_.inputs[0])];
    return in.rank_known && !in.dims.empty() ? in.dims[0] : own;
  }
  void add(int v, std::vector<Dim> dims) {
    SourceValue& value = g_.values[static_cast<size_t>(v)];
    value.rank_known = true;
    value.dims = std::move(dims);
    g_.outputs.push_back(v);
    names.push_back(value.name);
  }

 private:
  SourceGraph& g_;
  const SourceValue source_;
};

}  // namespace

std::vector<std::string> attach_head(SourceGraph& g, const HeadChoice& c, const HeadOptions& o) {
  // Compute the sizes of the input and the head. Add the cast and the pooling, which precede the linear map.
  GraphEditor e(g);
  const Dims& read = o.probe.at(static_cast<size_t>(c.source_value));
  const bool image = o.kind == "segmentation";
  const int64_t width = image || c.pooling == "global" ? read.at(1) : read.back();
  const int64_t labels = o.kind == "span" ? 2 : o.num_labels;
  const SourceValue source = g.values[static_cast<size_t>(c.source_value)];
  int x = c.source_value;
  if (source.dtype_known && source.dtype != DType::f32) x = e.node("Cast", "head/float", {x}, {{"to", int64_t{1}}});
  if (c.pooling != "none") x = pool(e, x, c.pooling, read.size());
  Outputs out(g, source);
  if (o.kind == "embedding") {
    if (c.normalized) x = normalize_rows(e, x);
    const int64_t parts = 1 + std::count(c.pooling.begin(), c.pooling.end(), '+');
    out.add(e.node("Identity", "sentence_embedding", {x}), {out.batch(), Dim{width * parts, ""}});
    return out.names;
  }
  if (o.dropout > 0 && !image && o.kind != "embedding") {
    GraphEditor training(g, Place::training);
    x = training.node("Dropout", "head/dropout", {x}, {{"ratio", o.dropout}, {"site", int64_t{0x68656164}}});
  }

  // Add the weight and the bias. The kind of head decides which operator uses them.
  // one result per token: MatMul with a weight [H, N]; else Gemm with [N, H]
  const bool rows = read.size() == 3 && c.pooling == "none";
  const Dims shape = image ? Dims{labels, width, 1, 1} : rows ? Dims{width, labels} : Dims{labels, width};
  const int w = e.parameter("classifier.weight", normal_tensor(shape, 0.02, o.seed, 0x68656164u), "new head");
  const int b = e.parameter("classifier.bias", HostTensor::zeros(DType::f32, {labels}), "new head");

  const Dim n{labels, ""};
  if (image) {
    out.add(e.node("Conv", "logits", {x, w, b}, {{"kernel_shape", std::vector<int64_t>{1, 1}}}),
            {out.batch(), n, out.source_dim(2), out.source_dim(3)});
  } else if (!rows) {
    out.add(e.node("Gemm", "logits", {x, w, b}, {{"transB", int64_t{1}}}), {out.batch(), n});
  } else if (o.kind == "token") {
    out.add(e.node("Add", "logits", {e.node("MatMul", "head/matmul", {x, w}), b}), {out.batch(), out.source_dim(1), n});
  } else {
    const int both = e.node("Add", "head/span", {e.node("MatMul", "head/matmul", {x, w}), b});
    for (const int64_t i : {0, 1}) {
      const int at = e.constant(i ? "head/end" : "head/start", HostTensor::scalar<int64_t>(i));
      out.add(e.node("Gather", i ? "end_logits" : "start_logits", {both, at}, {{"axis", int64_t{2}}}),
              {out.batch(), out.source_dim(1)});
    }
  }
  return out.names;
}

}  // namespace amp
