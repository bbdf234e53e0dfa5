// Names decide only for cache_position and use_cache_branch, which Transformers and Optimum define. A cache of integers
// is recognized by the nodes that read it, as other caches are (pasts.cc).
#include "importer/surgery/inference_inputs.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace amp {

namespace {

bool is_integer(DType t) { return t == DType::i32 || t == DType::i64; }

// A dimension of an input.
struct Extent {
  int input = -1;
  int64_t axis = 1;
};

class PositionCounter {
 public:
  explicit PositionCounter(Built& built) : built_(built), g_(built.graph) {}

  bool run() {
    bool any = false;
    const std::vector<int> inputs = g_.inputs;
    for (const int v : inputs) {
      const SourceValue& x = g_.value(v);
      const bool open = x.rank_known && x.dims.size() == 1 && x.dims[0].value < 0;
      if (plain_name(x.name) != "cache_position" || !open || !is_integer(x.dtype) || x.data) continue;
      const Extent length = length_of(x.dims[0].symbol);
      if (length.input < 0) continue;
      count(v, length);
      any = true;
    }
    if (any) insert();
    return any;
  }

 private:
  // Returns the dimension that counts token ids: the dimension with this symbol, else that of the ids that index a
  // table.
  Extent length_of(const std::string& symbol) const {
    std::set<int> indices;
    for (const SourceNode& n : g_.nodes) {
      if (one_of(n.op, {"Gather", "GatherBlockQuantized"}) && n.inputs.size() > 1) indices.insert(n.inputs[1]);
    }
    Extent out;
    for (const int v : g_.inputs) {
      const SourceValue& x = g_.value(v);
      if (!x.rank_known || x.dims.size() != 2 || !is_integer(x.dtype)) continue;
      if (!symbol.empty() && x.dims[1].symbol == symbol) return {v, 1};
      if (out.input < 0 && indices.count(v)) out.input = v;
    }
    return out;
  }

  int add(const std::string& name, SourceKind kind, DType t, HostTensor data = {}) {
    SourceValue v;
    v.name = g_.fresh_name(name);
    v.kind = kind;
    v.dtype = t;
    v.dtype_known = true;
    v.rank_known = true;
    v.data = std::move(data);
    built_.slot_of.push_back(-1);
    built_.visible.push_back(0);
    return g_.add_value(std::move(v));
  }

  void add_node(const std::string& op, std::vector<int> in, int out) {
    SourceNode n;
    n.name = cat(g_.value(out).name, "/", op);
    n.op = op;
    n.version = g_.opsets.count("") ? g_.opsets.at("") : 17;
    n.inputs = std::move(in);
    n.outputs = {out};
    n.place = Place::file;
    nodes_.push_back(std::move(n));
  }

  // Replaces input v (positions) by Range(0, n, 1), where n is the extent `length` of another input.
  void count(int v, Extent length) {
    const DType t = g_.value(v).dtype;
    const std::string name = g_.value(v).name;
    const auto number = [&](const char* which, int64_t n) {
      return add(cat(name, "/", which), SourceKind::constant, t, HostTensor::of<int64_t>({}, {n}).cast(t));
    };
    const int axis =
                  add(cat(name, "/axis"), SourceKind::constant, DType::i64, HostTensor::of<int64_t>({}, {length.axis})),
              zero = number("zero", 0), one = number("one", 1);
    const int shape = add(cat(name, "/shape"), SourceKind::temp, DType::i64),
              size = add(cat(name, "/size"), SourceKind::temp, DType::i64);
    g_.values[static_cast<size_t>(shape)].dims = {{2, ""}};
    add_node("Shape", {length.input}, shape);
    add_node("Gather", {shape, axis}, size);
    int limit = size;
    if (t != DType::i64) {
      limit = add(cat(name, "/limit"), SourceKind::temp, t);
      add_node("Cast", {size}, limit);
      nodes_.back().attrs.set("to", int64_t{6});  // INT32
    }
    add_node("Range", {zero, limit, one}, v);
    g_.values[static_cast<size_t>(v)].kind = SourceKind::temp;
    std::erase(g_.inputs, v);
    built_.notes.push_back(cat("'", printable(name), "' counts the positions of the token ids: 0, 1, ..."));
  }

  // Puts the new nodes before all others.
  void insert() {
    built_.scopes.insert(built_.scopes.begin(), nodes_.size(), std::string());
    g_.nodes.insert(g_.nodes.begin(), std::make_move_iterator(nodes_.begin()), std::make_move_iterator(nodes_.end()));
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      for (const int v : g_.nodes[i].outputs) {
        if (v >= 0) g_.values[static_cast<size_t>(v)].producer = static_cast<int>(i);
      }
    }
  }

  Built& built_;
  SourceGraph& g_;
  std::vector<SourceNode> nodes_;
};

class Refusals {
 public:
  explicit Refusals(const SourceGraph& g) : g_(g), consumers_(g.consumers()) {}

  void run(const PastOptions& options) const {
    std::vector<std::string> integers;
    for (const int v : g_.inputs) {
      const SourceValue& x = g_.value(v);
      if (plain_name(x.name) == "use_cache_branch" && chooses_graph(g_, consumers_, v)) refuse_branch(x.name);
      const bool eight = x.dtype == DType::i8 || x.dtype == DType::u8;
      if (eight && x.rank_known && x.dims.size() >= 3 && (has_configured_name(x.name, options) || is_past(v)))
        integers.push_back(x.name);
    }
    if (integers.empty()) return;
    fail(
        Exit::unsupported, "E_OP_CASE",
        cat("the cache of keys and values '", printable(integers[0]), "'",
            integers.size() > 1 ? cat(" (and ", integers.size() - 1, " more)") : "",
            " has 8-bit integers: attention reads rounded keys and values, and training through this rounding is not "
            "supported"),
        "export the model again with a floating-point cache (onnxruntime-genai: without options of a quantized cache)");
  }

 private:
  const std::vector<int>& users(int v) const { return consumers_[static_cast<size_t>(v)]; }
  const SourceNode& node(int n) const { return g_.nodes[static_cast<size_t>(n)]; }

  [[noreturn]] static void refuse_branch(const std::string& name) {
    fail(Exit::unsupported, "E_OP_CASE",
         cat("by the input '", printable(name),
             "' an If chooses between a graph with and one without a cache of keys and values: only one of the two "
             "would "
             "train"),
         "use a file with one of them: decoder_model.onnx or decoder_with_past_model.onnx beside it, or export again "
         "with `optimum-cli export onnx --no-post-process`");
  }

  // True if v (perhaps dequantized) is a past: attention reads it as its past, or it precedes the new keys in a Concat
  // that the graph returns.
  bool is_past(int v) const {
    return std::any_of(users(v).begin(), users(v).end(), [&](int user) {
      const SourceNode& n = node(user);
      if (n.domain == "com.microsoft" && one_of(n.op, {"GroupQueryAttention", "MultiHeadAttention", "Attention",
                                                       "SparseAttention", "DecoderMaskedMultiHeadAttention"}))
        return true;
      if (n.inputs[0] != v || n.outputs.empty()) return false;
      if (n.op == "Attention") return true;
      if (n.op == "Concat") return is_returned(n.outputs[0]);
      return one_of(n.op, {"DequantizeLinear", "Cast", "Identity", "Transpose", "Reshape"}) && is_past(n.outputs[0]);
    });
  }

  bool is_returned(int v) const {
    if (std::find(g_.outputs.begin(), g_.outputs.end(), v) != g_.outputs.end()) return true;
    return std::any_of(users(v).begin(), users(v).end(), [&](int user) {
      const SourceNode& n = node(user);
      return n.inputs[0] == v && one_of(n.op, {"QuantizeLinear", "Cast", "Identity", "Transpose", "Reshape"}) &&
             is_returned(n.outputs[0]);
    });
  }

  const SourceGraph& g_;
  const std::vector<std::vector<int>> consumers_;
};

}  // namespace

std::string plain_name(std::string name) {
  if (name.ends_with(":0")) name.resize(name.size() - 2);
  return name;
}

bool has_configured_name(const std::string& name, const PastOptions& options) {
  return std::any_of(options.names.begin(), options.names.end(), [&](const std::string& pattern) {
    const size_t at = pattern.find("%d");
    if (at == std::string::npos) return name == pattern;
    const std::string before = pattern.substr(0, at), after = pattern.substr(at + 2);
    return name.size() > before.size() + after.size() && name.starts_with(before) && name.ends_with(after);
  });
}

bool chooses_graph(const SourceGraph& g, const std::vector<std::vector<int>>& consumers, int v) {
  const std::vector<int>& users = consumers[static_cast<size_t>(v)];
  return std::any_of(users.begin(), users.end(), [&](int user) {
    const SourceNode& n = g.nodes[static_cast<size_t>(user)];
    if (!n.domain.empty() || n.inputs[0] != v) return false;
    if (n.op == "If") return true;
    const bool view = one_of(n.op, {"Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Not"});
    return view && chooses_graph(g, consumers, n.outputs[0]);
  });
}

bool count_positions(Built& built, const PastOptions& options) { return options.empty && PositionCounter(built).run(); }

void refuse_inference_inputs(const SourceGraph& graph, const PastOptions& options) {
  if (options.empty) Refusals(graph).run(options);
}

}  // namespace amp
