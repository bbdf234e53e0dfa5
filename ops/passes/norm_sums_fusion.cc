// Forms AddNormGradSums and NormSums (ops/add_norm.h, ops/norm_sums.h) from norm gradients and column sums in a
// complete graph.

#include <algorithm>
#include <map>

#include "graph/copier.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "ops/add_norm.h"
#include "ops/norm_sums.h"
#include "ops/reduce_shape.h"

namespace amp {

namespace {

class Merger {
 public:
  explicit Merger(const Graph& g) : g_(g), readers_(static_cast<size_t>(g.n_values())), kept_(readers_.size(), false) {
    for (int32_t n = 0; n < g.n_nodes(); ++n) {
      for (const ValueId v : g.node(NodeId{n}).in) {
        if (v) readers_[static_cast<size_t>(v.index)].push_back(n);
      }
    }
    for (const auto& o : g.outputs) kept_[static_cast<size_t>(o.value.index)] = true;
    for (const auto& p : g.param_grads) kept_[static_cast<size_t>(p.value.index)] = true;
  }

  Graph run() {
    for (int32_t n = 0; n < g_.n_nodes(); ++n) {
      const std::string& op = g_.node(NodeId{n}).op->name;
      if (op == "AddNormGrad" || (op == "LayerNormGrad" && in_fp32(n))) merge(n);
    }
    if (at_.empty()) return g_;
    Copier out(g_);
    for (int32_t n = 0; n < g_.n_nodes(); ++n) {
      const auto changed = at_.find(n);
      if (changed == at_.end()) {
        if (!gone_.count(n)) out.node(NodeId{n}, types_of(g_, g_.node(NodeId{n}).out));
        continue;
      }
      const Changed& c = changed->second;
      Node like = g_.node(NodeId{n});
      like.op = &core_op(c.op);
      like.attrs = c.attrs;
      out.add(like, c.in, c.out, types_of(g_, c.out));
    }
    out.finish();
    return std::move(out.out);
  }

 private:
  struct Changed {
    const char* op = "";
    std::vector<ValueId> in;
    Attrs attrs;
    std::vector<ValueId> out;  // outputs, as values of the old graph
  };

  const std::vector<int32_t>& readers(ValueId v) const { return readers_[static_cast<size_t>(v.index)]; }
  const Value& value(ValueId v) const { return g_.value(v); }
  bool kept(ValueId v) const { return kept_[static_cast<size_t>(v.index)]; }

  void merge(int32_t at) {
    const Node& norm = g_.node(NodeId{at});
    const int32_t weights = weights_of(norm);
    ValueId dy = norm.in[4], more;
    if (const int32_t add = sum_for(dy, at, weights); add >= 0) {
      const Node& sum = g_.node(NodeId{add});
      dy = sum.in[0];
      more = sum.in[1];
      gone_[add] = true;
      std::vector<ValueId> in = norm.in;
      in.resize(8);
      in[4] = dy;
      in[7] = more;
      // A LayerNormGrad also becomes an AddNormGrad, which is equal to it if it has no optional inputs and attributes.
      at_[at] = {"AddNormGrad", in, norm.attrs, norm.out};
    }
    if (weights < 0) return;
    const Node& w = g_.node(NodeId{weights});
    const int32_t reduction = reduction_of(norm, w);
    if (!read_before(w, at)) return in_one_pass(at, weights, reduction, dy, more);
    if (!more && reduction < 0) return;
    Changed c{"NormSums", {w.in[0], w.in[1], w.in[2], dy, more}, w.attrs, w.out};
    int32_t place = weights;
    if (reduction >= 0) {
      const Node& r = g_.node(NodeId{reduction});
      c.in.push_back(r.in[0]);
      c.out.push_back(r.out[0]);
      place = std::max(weights, reduction);
      gone_[std::min(weights, reduction)] = true;
    }
    at_[place] = std::move(c);
  }

  bool in_fp32(int32_t n) const {
    const Node& norm = g_.node(NodeId{n});
    const ValueId large[] = {norm.in[0], norm.in[4], norm.out[0]};
    return std::all_of(std::begin(large), std::end(large), [&](ValueId v) { return value(v).dtype == DType::f32; });
  }
  // Merges the norm's gradient, the gradients of its scale and bias, and the column sum, if there is one, into
  // AddNormGradSums.
  void in_one_pass(int32_t at, int32_t weights, int32_t reduction, ValueId dy, ValueId more) {
    const Node &norm = g_.node(NodeId{at}), &w = g_.node(NodeId{weights});
    Changed c{"AddNormGradSums", norm.in, norm.attrs, norm.out};
    if (more) {
      c.in.resize(8);
      c.in[4] = dy;
      c.in[7] = more;
    }
    c.attrs.set(kFirstSum, static_cast<int64_t>(norm.out.size()));
    c.out.insert(c.out.end(), w.out.begin(), w.out.end());
    gone_[weights] = true;
    if (reduction >= 0) {
      const Node& r = g_.node(NodeId{reduction});
      c.attrs.set("summed", std::find(norm.out.begin(), norm.out.end(), r.in[0]) - norm.out.begin());
      c.out.push_back(r.out[0]);
      gone_[reduction] = true;
    }
    at_[at] = std::move(c);
  }

  // Returns the node that computes the gradients of scale and bias of the same norm; -1 if there is none.
  int32_t weights_of(const Node& norm) const {
    for (const int32_t n : readers(norm.in[4])) {
      const Node& w = g_.node(NodeId{n});
      if (w.op->name == "LayerNormGradWeights" && w.in[0] == norm.in[0] && w.in[1] == norm.in[2] &&
          w.in[2] == norm.in[3] && w.in[3] == norm.in[4] && w.out[0] && w.out[1])
        return n;
    }
    return -1;
  }
  // Returns the Add that computes dy, if the Add is in fp32 and only `norm` and `weights` read dy; otherwise -1.
  int32_t sum_for(ValueId dy, int32_t norm, int32_t weights) const {
    const Value& v = value(dy);
    if (v.kind != ValueKind::temp || v.dtype != DType::f32 || kept(dy)) return -1;
    const Node& add = g_.node(v.producer);
    if (add.op->name != "Add" || value(add.in[0]).dims != v.dims || value(add.in[1]).dims != v.dims) return -1;
    if (value(add.in[0]).dtype != DType::f32 || value(add.in[1]).dtype != DType::f32) return -1;
    const auto& all = readers(dy);
    return std::all_of(all.begin(), all.end(), [&](int32_t n) { return n == norm || n == weights; }) ? v.producer.index
                                                                                                     : -1;
  }
  // Returns a column sum of an output of the norm's gradient, if it adds in the same order as NormSums; otherwise -1.
  int32_t reduction_of(const Node& norm, const Node& weights) const {
    const int64_t n = norm.attrs.i("n", 1);
    for (const ValueId v : norm.out) {
      for (const int32_t r : readers(v)) {
        const Node& reduce = g_.node(NodeId{r});
        if (reduce.op->name != "ReduceSum" || numel(value(reduce.out[0]).dims) != n) continue;
        const ReduceShape shape(value(v).dims, reduce.attrs.ints("axes"));
        if (shape.outer != 1 || shape.inner != n || !shape.by_columns()) continue;
        if (value(reduce.out[0]).dtype == value(weights.out[0]).dtype && !read_before(weights, r)) return r;
      }
    }
    return -1;
  }
  bool read_before(const Node& weights, int32_t place) const {
    return std::any_of(weights.out.begin(), weights.out.end(), [&](ValueId v) {
      return std::any_of(readers(v).begin(), readers(v).end(), [&](int32_t n) { return n < place; });
    });
  }

  const Graph& g_;
  std::vector<std::vector<int32_t>> readers_;
  std::vector<bool> kept_;
  std::map<int32_t, Changed> at_;
  std::map<int32_t, bool> gone_;
};

}  // namespace

Graph merge_norm_sums(const Graph& g) { return Merger(g).run(); }

}  // namespace amp
