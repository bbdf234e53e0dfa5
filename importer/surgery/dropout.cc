// Finds the positions of dropout by pattern matching on the SourceGraph. The first pass finds attention probabilities;
// if there are none, nothing is inserted. The next passes find residual branches, the starts of residual streams, and
// classifiers. Edges are collected first. Dropout nodes are inserted into them afterwards, because insertion changes
// the readers that the patterns examine.
#include "importer/surgery/dropout.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "importer/surgery/classifier.h"
#include "importer/surgery/edit.h"

namespace amp {
namespace {

bool is_op(const SourceNode& n, const std::set<std::string>& ops) { return n.domain.empty() && ops.count(n.op); }

bool contrib(const SourceNode& n, const std::set<std::string>& ops) {
  return n.domain == "com.microsoft" && ops.count(n.op) != 0;
}

class Inserter {
 public:
  Inserter(SourceGraph& g, const DropoutOptions& o)
      : g_(g),
        o_(o),
        needed_(upstream_of(g, o.outputs)),
        from_data_(downstream_of(g, g.inputs)),
        from_weights_(downstream_of(g, parameters(g))),
        consumers_(g.consumers()) {}

  std::vector<DropoutSpot> run(std::vector<std::string>& notes) {
    if (wake_file_nodes()) return spots_;
    if (!o_.asked && rotary()) {
      notes.push_back(
          "dropout: none inserted, since models with rotary positions are trained without; `dropout` P inserts it");
      return spots_;
    }
    attention();
    if (spots_.empty() && edges_.empty()) return spots_;
    residual();
    embeddings();
    heads();
    const size_t n = g_.nodes.size();
    for (const Edge& p : edges_) insert(p, n);
    sort_nodes(g_);
    return spots_;
  }

 private:
  struct Edge {
    const char* kind;
    int value;
    int reader;  // the only node that reads the dropped value; -1: all readers
  };
  static std::vector<int> parameters(const SourceGraph& g) {
    std::vector<int> out;
    for (size_t i = 0; i < g.values.size(); ++i) {
      if (g.values[i].kind == SourceKind::parameter) out.push_back(static_cast<int>(i));
    }
    return out;
  }
  const SourceValue& value(int v) const { return g_.values[static_cast<size_t>(v)]; }
  const SourceNode* producer(int v) const {
    const int p = v < 0 ? -1 : value(v).producer;
    return p < 0 ? nullptr : &g_.nodes[static_cast<size_t>(p)];
  }
  bool activation(int v) const { return v >= 0 && from_data_[static_cast<size_t>(v)]; }
  bool weight(int v) const {
    return v >= 0 && !from_data_[static_cast<size_t>(v)] && from_weights_[static_cast<size_t>(v)];
  }
  bool live(const SourceNode& n) const {
    return std::any_of(n.outputs.begin(), n.outputs.end(),
                       [&](int v) { return v >= 0 && needed_[static_cast<size_t>(v)]; });
  }

  int64_t site(const std::string& name) {
    uint32_t h = name_hash(name);
    while (!sites_.insert(h).second) ++h;
    return static_cast<int64_t>(h);
  }

  void insert(const Edge& p, size_t n_nodes) {
    const std::string name = value(p.value).name;
    GraphEditor e(g_, Place::training);
    const DType t = value(p.value).dtype;
    const int y = e.node("Dropout", "dropout/" + name, {p.value}, {{"ratio", o_.ratio}, {"site", site(name)}}, t);
    for (size_t n = 0; n < n_nodes; ++n) {
      if (p.reader >= 0 && static_cast<int>(n) != p.reader) continue;
      for (int& x : g_.nodes[n].inputs) x = x == p.value ? y : x;
    }
    const SourceNode* from = producer(p.value);
    spots_.push_back({p.kind, from ? from->name : name, o_.ratio});
  }

  bool wake_file_nodes() {
    bool any = false;
    for (SourceNode& n : g_.nodes) {
      if (n.place != Place::file || !is_op(n, {"Dropout"}) || !live(n)) continue;
      double ratio = n.attrs.f("ratio", o_.ratio);
      if (n.inputs.size() > 1 && n.inputs[1] >= 0 && value(n.inputs[1]).data)
        ratio = value(n.inputs[1]).data.to_doubles().at(0);
      if (!(ratio >= 0 && ratio < 1)) continue;
      any = true;
      n.attrs.set("ratio", ratio);
      n.attrs.set("site", site(n.name));
      spots_.push_back({"file", n.name, ratio});
    }
    return any;
  }

  // True if the graph contains RotaryEmbedding or rotate_half: Concat(Neg(Slice(x)), Slice(x)).
  bool rotary() const {
    for (const SourceNode& n : g_.nodes) {
      if (!live(n)) continue;
      if (n.op == "RotaryEmbedding") return true;
      if (!is_op(n, {"Concat"}) || n.inputs.size() != 2) continue;
      const SourceNode *a = producer(n.inputs[0]), *b = producer(n.inputs[1]);
      if (!a || !b || a->op != "Neg") continue;
      const SourceNode* x = producer(a->inputs.at(0));
      if (x && (x->op == "Slice" || x->op == "Split") && b->op == x->op && x->inputs.at(0) == b->inputs.at(0))
        return true;
    }
    return false;
  }

  // True if the scores come from a product of two activations. Nodes that scale, mask or rearrange are skipped.
  bool product_behind(int v) const {
    static const std::set<std::string> pass = {"Add",  "Sub",     "Mul",       "Div",     "Where",
                                               "Cast", "Reshape", "Transpose", "Max",     "Min",
                                               "Clip", "Tanh",    "Identity",  "Squeeze", "Unsqueeze"};
    std::vector<int> open = {v};
    std::set<int> seen;
    while (!open.empty() && seen.size() < 64) {
      const int x = open.back();
      open.pop_back();
      const SourceNode* n = producer(x);
      if (!n || !seen.insert(x).second) continue;
      if (is_op(*n, {"MatMul", "Einsum"}) || contrib(*n, {"FusedMatMul"})) {
        if (n->inputs.size() >= 2 && producer(n->inputs[0]) && activation(n->inputs[1]) && !weight(n->inputs[1]))
          return true;
        continue;
      }
      if (is_op(*n, pass)) open.insert(open.end(), n->inputs.begin(), n->inputs.end());
    }
    return false;
  }

  // Follows the attention probabilities v to the product with V and records the edge into it.
  void follow_probabilities(int v) {
    for (int steps = 0; steps < 6; ++steps) {
      int next = -1;
      for (const int c : consumers_[static_cast<size_t>(v)]) {
        const SourceNode& n = g_.nodes[static_cast<size_t>(c)];
        if (!live(n)) continue;
        const bool product = is_op(n, {"MatMul", "Einsum"}) || contrib(n, {"FusedMatMul"});
        if (product && n.inputs.size() >= 2 && n.inputs[0] == v && producer(n.inputs[1])) {
          edges_.push_back({"attention", v, c});
          return;
        }
        if (is_plain_view(n, false) || (is_op(n, {"Where"}) && (n.inputs.at(1) == v || n.inputs.at(2) == v)))
          next = n.outputs[0];
      }
      if (next < 0) return;
      v = next;
    }
  }

  void attention() {
    for (SourceNode& n : g_.nodes) {
      if (!live(n)) continue;
      if ((n.op == "Attention" && n.domain.empty()) || contrib(n, {"Attention", "MultiHeadAttention"})) {
        n.attrs.set("training_dropout", o_.ratio);
        n.attrs.set("site", site(n.name));
        spots_.push_back({"attention", n.name, o_.ratio});
      } else if (is_op(n, {"Softmax"}) && activation(n.inputs.at(0)) && product_behind(n.inputs[0])) {
        follow_probabilities(n.outputs.at(0));
      }
    }
  }

  // Returns the output of the linear map from which views, window shifts and a layer scale compute v; -1 if there is
  // none. Sets `data` to the input of the linear map.
  int linear_behind(int v, int* data = nullptr) const {
    for (int steps = 0; steps < 16; ++steps) {
      const SourceNode* n = producer(v);
      if (!n || n->place != Place::file) return -1;
      const auto& in = n->inputs;
      if ((is_op(*n, {"MatMul", "Gemm"}) || contrib(*n, {"FusedMatMul"})) && in.size() >= 2) {
        if (!activation(in[0]) || !weight(in[1])) return -1;
        if (data) *data = in[0];
        return v;
      }
      if (is_op(*n, {"Add"}) && in.size() == 2 && weight(in[0]) != weight(in[1])) {  // a bias
        const int x = weight(in[0]) ? in[1] : in[0];
        const SourceNode* m = producer(x);
        if (!m || !is_op(*m, {"MatMul"}) || !activation(m->inputs.at(0)) || !weight(m->inputs.at(1))) return -1;
        if (data) *data = m->inputs[0];
        return v;
      }
      if (is_plain_view(*n, true) || is_op(*n, {"Slice"})) {
        v = in[0];
      } else if (is_op(*n, {"Mul"}) && in.size() == 2 && weight(in[0]) != weight(in[1])) {  // a layer scale
        v = weight(in[0]) ? in[1] : in[0];
      } else if (is_op(*n, {"Concat"}) && shifted(*n) >= 0) {
        v = shifted(*n);
      } else {
        return -1;
      }
    }
    return -1;
  }
  // Returns the value whose Slices this Concat joins, as in a window shift; -1 if it joins anything else.
  int shifted(const SourceNode& n) const {
    int whole = -1;
    for (const int v : n.inputs) {
      const SourceNode* p = producer(v);
      if (!p || !is_op(*p, {"Slice"}) || (whole >= 0 && p->inputs.at(0) != whole)) return -1;
      whole = p->inputs.at(0);
    }
    return whole;
  }

  void residual() {
    std::set<int> branches;
    for (const SourceNode& n : g_.nodes) {
      const bool sum = is_op(n, {"Add"}) || contrib(n, {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"});
      if (!sum || !live(n) || n.inputs.size() < 2 || !activation(n.inputs[0]) || !activation(n.inputs[1])) continue;
      for (const size_t side : {0, 1}) {
        const int branch = linear_behind(n.inputs[side]), stream = n.inputs[1 - side];
        if (branch < 0 || branch == stream) continue;
        if (!upstream_of(g_, {branch})[static_cast<size_t>(skip_views(stream))]) continue;
        sums_.push_back(n.outputs.at(0));
        streams_.push_back(stream);
        branches_.push_back(branch);
        break;
      }
    }
    for (const int b : branches_) {
      if (branches.insert(b).second) edges_.push_back({"residual", b, -1});
    }
  }
  int skip_views(int v) const {
    for (const SourceNode* n = producer(v); n && is_plain_view(*n, true); n = producer(v)) v = n->inputs[0];
    return v;
  }

  // Records the embeddings: the starts of residual streams that do not themselves depend on a residual sum.
  void embeddings() {
    std::set<int> roots;
    for (const int stream : streams_) {
      const std::vector<char> up = upstream_of(g_, {stream});
      if (std::any_of(sums_.begin(), sums_.end(), [&](int s) { return up[static_cast<size_t>(s)]; })) continue;
      int v = skip_views(stream), data = -1;
      if (!activation(v)) continue;
      if (linear_behind(v, &data) >= 0 && table_behind(data)) v = data;
      if (producer(v) && std::find(branches_.begin(), branches_.end(), v) == branches_.end()) roots.insert(v);
    }
    for (const int v : roots) edges_.push_back({"embeddings", v, -1});
  }
  bool table_behind(int v) const {
    const std::vector<char> up = upstream_of(g_, {v});
    return std::any_of(g_.nodes.begin(), g_.nodes.end(), [&](const SourceNode& n) {
      return n.op == "Gather" && !n.outputs.empty() && up[static_cast<size_t>(n.outputs[0])] && weight(n.inputs.at(0));
    });
  }

  void heads() {
    std::set<int64_t> vocabularies;
    for (const SourceNode& n : g_.nodes) {
      if (n.op == "Gather" && value(n.inputs.at(0)).data && value(n.inputs[0]).data.rank() == 2)
        vocabularies.insert(value(n.inputs[0]).data.dims()[0]);
    }
    std::set<int> done;
    for (const int v : o_.outputs) {
      const auto c = find_classifier(g_, v);
      if (!c || c->image || vocabularies.count(c->labels) || !done.insert(c->node).second) continue;
      const int x = g_.nodes[static_cast<size_t>(c->node)].inputs.at(0);
      const SourceNode* p = producer(x);
      if (!p || p->op == "Dropout" || !activation(x)) continue;  // a new head has its own dropout
      if (!table_behind(x)) continue;                            // vision transformers have no dropout here
      edges_.push_back({"head", x, c->node});
    }
  }

  SourceGraph& g_;
  const DropoutOptions& o_;
  const std::vector<char> needed_, from_data_, from_weights_;
  const std::vector<std::vector<int>> consumers_;
  std::vector<DropoutSpot> spots_;
  std::set<uint32_t> sites_;
  std::vector<Edge> edges_;
  std::vector<int> sums_, streams_, branches_;
};

}  // namespace

std::vector<DropoutSpot> insert_dropout(SourceGraph& g, const DropoutOptions& options,
                                        std::vector<std::string>& notes) {
  return Inserter(g, options).run(notes);
}

std::vector<std::string> describe_dropout(const std::vector<DropoutSpot>& spots) {
  std::vector<std::string> lines;
  std::vector<char> told(spots.size());
  for (size_t i = 0; i < spots.size(); ++i) {
    if (told[i]) continue;
    std::vector<std::string> names;
    for (size_t k = i; k < spots.size(); ++k) {
      if (spots[k].kind != spots[i].kind || spots[k].ratio != spots[i].ratio) continue;
      told[k] = 1;
      names.push_back("'" + printable(spots[k].node) + "'");
    }
    lines.push_back(cat("dropout ", spots[i].ratio, " on ",
                        spots[i].kind == "file" ? "the file's own nodes" : spots[i].kind, ": ", names.size(), " (",
                        join(names, ", "), ")"));
  }
  return lines;
}

}  // namespace amp
