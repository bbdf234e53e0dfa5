// NHWC regions (channels_last.h). Union-find joins neighboring nodes that have an NHWC form to regions. A region is
// kept if its border copies fewer bytes than its convolutions would copy separately. Rewriter then inserts transposes
// at the borders.

#include "ops/passes/channels_last.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "backend/channels_last.h"
#include "base/error.h"
#include "graph/copier.h"
#include "graph/passes.h"

namespace amp {

namespace {

// Determines which nodes are converted to NHWC.
class Regions {
 public:
  Regions(const Graph& g, bool fp32)
      : g_(g), region_(static_cast<size_t>(g.n_nodes())), readers_(static_cast<size_t>(g.n_values())) {
    std::iota(region_.begin(), region_.end(), 0);
    for (int32_t n = 0; n < g.n_nodes(); ++n) {
      forms_.push_back(channels_last_form(g, g.node(NodeId{n}), fp32));
      for (const ValueId v : g.node(NodeId{n}).in) {
        if (v) readers_[index(v)].push_back(n);
      }
    }
    for (const auto& o : g.outputs) kept_.insert(o.value);
    for (const auto& p : g.param_grads) kept_.insert(p.value);
    trim();
    connect();
    weigh();
  }
  const ChannelsLastForm* of(int32_t n) const {
    const auto& form = forms_[static_cast<size_t>(n)];
    const auto saved = saved_.find(root(n));
    return form && saved != saved_.end() && saved->second > 0 ? &*form : nullptr;
  }
  bool any() const {
    return std::any_of(saved_.begin(), saved_.end(), [](const auto& region) { return region.second > 0; });
  }

 private:
  static size_t index(ValueId v) { return static_cast<size_t>(v.index); }
  int32_t root(int32_t n) const {
    while (region_[static_cast<size_t>(n)] != n) n = region_[static_cast<size_t>(n)];
    return n;
  }
  // Returns the bytes that changing the layout of v copies: 0 if v has one channel or one position.
  int64_t moved(ValueId v) const {
    const Value& x = g_.value(v);
    Dims d = x.dims;
    d.insert(d.begin(), 4 - std::min<size_t>(d.size(), 4), 1);
    return d.size() != 4 || d[1] == 1 || d[2] * d[3] == 1 ? 0 : numel(d) * size_of(x.dtype);
  }
  // Calls f(v, is_result) for each operand and result v of node n that is NHWC in the node's NHWC form.
  template <class F>
  void each_image(int32_t n, F f) const {
    const Node& node = g_.node(NodeId{n});
    const auto& form = forms_[static_cast<size_t>(n)];
    if (!form) return;
    for (size_t i = 0; i < node.in.size(); ++i) {
      if (form->in[i]) f(node.in[i], false);
    }
    for (size_t i = 0; i < node.out.size(); ++i) {
      if (form->out[i]) f(node.out[i], true);
    }
  }
  bool reads_last(int32_t n, ValueId v) const {
    bool any = false;
    each_image(n, [&](ValueId x, bool result) { any = any || (x == v && !result); });
    return any;
  }

  bool has_form(int32_t n) const { return forms_[static_cast<size_t>(n)].has_value(); }
  bool made_last(ValueId v) const {
    bool made = false;
    const NodeId from = g_.value(v).producer;
    if (from) each_image(from.index, [&](ValueId x, bool result) { made = made || (x == v && result); });
    return made;
  }
  // Returns whether a node other than n reads v in NHWC layout.
  bool read_last(ValueId v, int32_t n = -1) const {
    const auto& readers = readers_[index(v)];
    return std::any_of(readers.begin(), readers.end(), [&](int32_t r) { return r != n && reads_last(r, v); });
  }
  bool read_first(ValueId v) const {
    const auto& readers = readers_[index(v)];
    return kept_.count(v) > 0 ||
           std::any_of(readers.begin(), readers.end(), [&](int32_t r) { return !reads_last(r, v); });
  }

  // Removes a node at the border of a region if transposing on the node's inner side copies fewer bytes; convolutions
  // are not removed. For example, images are transposed after their cast to 16 bits.
  void trim() {
    for (int32_t n = 0; n < g_.n_nodes(); ++n) {
      if (may_leave(n, false)) forms_[static_cast<size_t>(n)].reset();
    }
    for (int32_t n = g_.n_nodes(); n-- > 0;) {
      if (may_leave(n, true)) forms_[static_cast<size_t>(n)].reset();
    }
  }
  bool may_leave(int32_t n, bool at_end) const {
    if (!has_form(n) || forms_[static_cast<size_t>(n)]->gains || forms_[static_cast<size_t>(n)]->same) return false;
    bool border = true;
    int64_t now = 0, then = 0;  // bytes copied with the node inside the region, and outside
    each_image(n, [&](ValueId v, bool result) {
      if (result && at_end) {
        border = border && !read_last(v);
        now += moved(v);
      } else if (result) {
        then += read_last(v) ? moved(v) : 0;
        now += read_first(v) ? moved(v) : 0;
      } else if (at_end) {
        then += made_last(v) && !read_first(v) ? moved(v) : 0;
        now += made_last(v) ? 0 : moved(v);
      } else {
        border = border && !made_last(v);
        now += read_last(v, n) ? 0 : moved(v);
      }
    });
    return border && then < now;
  }

  void connect() {
    for (int32_t n = 0; n < g_.n_nodes(); ++n) {
      each_image(n, [&](ValueId v, bool result) {
        if (!result || moved(v) == 0) return;
        for (const int32_t reader : readers_[index(v)]) {
          if (reads_last(reader, v)) region_[static_cast<size_t>(root(reader))] = root(n);
        }
      });
    }
  }
  // Computes the bytes that each region saves: those that its convolutions would copy separately, minus those that are
  // copied at the region's border.
  void weigh() {
    std::set<std::pair<int32_t, ValueId>> crossing;
    for (int32_t n = 0; n < g_.n_nodes(); ++n) {
      const int32_t region = root(n);
      each_image(n, [&](ValueId v, bool result) {
        if (forms_[static_cast<size_t>(n)]->gains) saved_[region] += moved(v);
        bool inside = true;
        if (result) {
          inside = kept_.count(v) == 0;
          for (const int32_t reader : readers_[index(v)]) inside = inside && reads_last(reader, v);
        } else {
          const NodeId from = g_.value(v).producer;
          inside = from && root(from.index) == region;
        }
        if (!inside) crossing.emplace(region, v);
      });
    }
    for (const auto& [region, v] : crossing) saved_[region] -= moved(v);
  }

  const Graph& g_;
  std::vector<std::optional<ChannelsLastForm>> forms_;  // indexed by node: its NHWC form, if it has one
  std::vector<int32_t> region_;                         // union-find, indexed by node: another node of its region
  std::vector<std::vector<int32_t>> readers_;           // indexed by value: nodes that read it
  std::set<ValueId> kept_;                              // graph outputs and gradients of parameters
  std::map<int32_t, int64_t> saved_;                    // region -> bytes that it saves
};

class Rewriter {
 public:
  Rewriter(const Graph& g, bool fp32, const Evaluator& evaluator)
      : g_(g), regions_(g, fp32), b_(out_, evaluator), first_(g, out_, &b_), last_(static_cast<size_t>(g.n_values())) {}

  Graph run() {
    if (!regions_.any()) return g_;
    for (int32_t n = 0; n < g_.n_nodes(); ++n) {
      const Node& node = g_.node(NodeId{n});
      b_.origin = {node.origin.source_node, "layout for", node.origin.compute};
      if (const ChannelsLastForm* form = regions_.of(n))
        chained(node, *form);
      else
        plain(node);
    }
    for (const auto& o : g_.outputs) first(o.value);
    for (const auto& p : g_.param_grads) first(p.value);
    first_.finish();
    return prune(out_);
  }

 private:
  ValueId& known_last(ValueId v) { return last_[static_cast<size_t>(v.index)]; }

  ValueId first(ValueId v) {
    if (v && known_last(v) && from_chain_.insert(v).second) first_.set(v, b_.transpose(known_last(v), {0, 3, 1, 2}));
    return first_(v);
  }
  ValueId last(ValueId v) {
    if (known_last(v)) return known_last(v);
    Dims dims = g_.value(v).dims;
    dims.insert(dims.begin(), 4 - dims.size(), 1);
    return known_last(v) = b_.transpose(b_.reshape(first_(v), dims), {0, 2, 3, 1});
  }

  void chained(const Node& node, const ChannelsLastForm& form) {
    if (form.same) {
      if (form.out[0])
        known_last(node.out[0]) = first(node.in[0]);
      else
        first_.set(node.out[0], last(node.in[0]));
      return;
    }
    std::vector<ValueId> in;
    for (size_t i = 0; i < node.in.size(); ++i) in.push_back(form.in[i] ? last(node.in[i]) : first(node.in[i]));
    std::vector<std::pair<DType, Dims>> outputs = types_of(g_, node.out);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (form.out[i]) outputs[i].second = channels_last(outputs[i].second);
    }
    Node like = node;
    like.attrs = form.attrs;
    const NodeId made = out_.add_copy(like, std::move(in), outputs);
    for (size_t i = 0; i < node.out.size(); ++i) {
      const ValueId v = out_.node(made).out[i];
      if (form.out[i])
        known_last(node.out[i]) = v;
      else
        first_.set(node.out[i], v);
      out_.set_name(v, g_.value(node.out[i]).name);
    }
  }
  void plain(const Node& node) {
    std::vector<ValueId> in;
    for (const ValueId v : node.in) in.push_back(first(v));
    // A Transpose of the model may be next to an inserted one; the builder merges or cancels both.
    if (node.op->name == "Transpose") return first_.set(node.out[0], b_.transpose(in[0], node.attrs.ints("perm")));
    const NodeId made = out_.add_copy(node, std::move(in), types_of(g_, node.out));
    first_.set(node.out, out_.node(made).out);
    for (size_t i = 0; i < node.out.size(); ++i) out_.set_name(out_.node(made).out[i], g_.value(node.out[i]).name);
  }

  const Graph& g_;
  Regions regions_;
  Graph out_;
  Builder b_;
  ValueMap first_;             // value of the old graph -> its copy in the old layout
  std::vector<ValueId> last_;  // indexed by value of the old graph: its NHWC copy; may be invalid
  std::set<ValueId> from_chain_;
};

}  // namespace

Graph form_nhwc_regions(const Graph& g, bool fp32, const Evaluator& evaluator) {
  return Rewriter(g, fp32, evaluator).run();
}

}  // namespace amp
