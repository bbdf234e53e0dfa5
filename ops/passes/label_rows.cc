// Row selection (label_rows.h). RowSelector goes through the graph backwards, from the losses, to find the values of
// which only rows with a label are needed. Then it writes a graph that computes only these rows of them. PlaceValues
// (padding_flow.h) shows where a loss is 0: a row without a label has the place of a padded position there.

#include "ops/passes/label_rows.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "graph/copier.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "ops/compose.h"

namespace amp {

namespace {

constexpr TokenForm kFlat{1, true};

// The part of a value that its readers need.
struct Demand {
  enum Kind : uint8_t { none, rows, all } kind = none;
  TokenForm form;  // of rows
  void join(const Demand& other) {
    if (other.kind == none || (kind == other.kind && form == other.form)) return;
    *this = kind == none ? other : Demand{all, {}};
  }
};

// By input of a node: the form of the rows that it reads; empty: it reads all elements.
using RowInputs = std::vector<std::optional<TokenForm>>;

class RowSelector {
 public:
  RowSelector(const Graph& g, const RowSelection& s, const Evaluator& evaluator)
      : g_(g),
        places_(s.places),
        known_(g, evaluator, s.places, given(g, s)),
        demands_(static_cast<size_t>(g.n_values())),
        inputs_(static_cast<size_t>(g.n_nodes())),
        b_(out_, evaluator),
        mapped_(g, out_, &b_) {
    for (const auto& o : g_.outputs) want(o.value, {Demand::all, {}});
    for (int32_t n = g_.n_nodes(); n-- > 0;) visit(NodeId{n});
  }

  double saved() const { return saved_; }  // operations per row that is not computed

  Graph write(int64_t rows) {
    rows_ = rows;
    index_ = out_.add_input(kRowInput, DType::i64, {rows});
    for (int32_t n = 0; n < g_.n_nodes(); ++n) emit(NodeId{n});
    mapped_.finish();
    return prune(out_);
  }

 private:
  static std::map<int32_t, PlaceValues::Known> given(const Graph& g, const RowSelection& s) {
    std::map<int32_t, PlaceValues::Known> m;
    for (const RowLabels& l : s.labels) {
      const bool flat = g.value(l.value).dims.size() == 1;
      m[l.value.index] = {false, {1, flat}, {}, static_cast<double>(l.ignored)};
    }
    return m;
  }
  static size_t at(ValueId v) { return static_cast<size_t>(v.index); }
  const Dims& dims(ValueId v) const { return g_.value(v).dims; }
  const Demand& demand(ValueId v) const { return demands_[at(v)]; }
  bool narrow(ValueId v) const { return demand(v).kind == Demand::rows && narrow_.contains(v.index); }
  void want(ValueId v, const Demand& d) {
    if (v) demands_[at(v)].join(d);
  }

  void visit(NodeId id) {
    const Node& n = g_.node(id);
    if (std::all_of(n.out.begin(), n.out.end(), [&](ValueId v) { return demand(v).kind == Demand::none; })) return;
    RowInputs in = sum_of_rows(n);
    if (in.empty()) {
      in = row_inputs(n);
      for (size_t i = 0; i < n.out.size() && !in.empty(); ++i) narrow_.insert(n.out[i].index);
      if (!in.empty() && n.op->name == "MatMul")
        saved_ += 2.0 * static_cast<double>(dims(n.out[0]).back()) * static_cast<double>(dims(n.in[0]).back());
    }
    for (size_t i = 0; i < n.in.size(); ++i)
      want(n.in[i], !in.empty() && in[i] ? Demand{Demand::rows, *in[i]} : Demand{Demand::all, {}});
    inputs_[static_cast<size_t>(id.index)] = std::move(in);
  }

  // ---- which rows a node reads

  bool is_row_axis(TokenForm f, int64_t axis) const {
    return axis == 0 || (!f.flat && axis == static_cast<int64_t>(f.axis));
  }
  // Returns the inputs of a node that sums rows and to which rows without a label add 0; otherwise nothing.
  RowInputs sum_of_rows(const Node& n) const {
    const std::string& op = n.op->name;
    if (op == "CrossEntropy") {
      const auto ignored = static_cast<double>(n.attrs.i("ignore_index", -100));
      if (n.in.size() != 2 || !known_.padded_is(n.in[1], kFlat, 1, ignored) || !places_.has_form(dims(n.in[0]), kFlat))
        return {};
      return {kFlat, kFlat};
    }
    const PlaceValues::Known* x = op == "ReduceSum" ? known_.at(n.in[0]) : nullptr;
    if (!x || x->uniform || x->padded != 0.0) return {};
    const std::vector<int64_t> axes = n.attrs.ints("axes");
    const auto sums = [&](size_t axis) {
      return std::find(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != axes.end();
    };
    if (!sums(0) || (!x->form.flat && !sums(x->form.axis))) return {};
    return {x->form};
  }

  // Returns the inputs of a node of whose outputs only rows are needed, if it computes each row separately; otherwise
  // nothing.
  RowInputs row_inputs(const Node& n) const {
    const std::string& op = n.op->name;
    const Demand& d = demand(n.out[0]);
    if (d.kind != Demand::rows || n.in.empty()) return {};
    for (const ValueId v : n.out) {  // outputs other than the first one have no rows, except those of Split
      const bool same = demand(v).kind == Demand::rows && demand(v).form == d.form && op == "Split";
      if (v != n.out[0] && demand(v).kind != Demand::none && !same) return {};
    }
    const TokenForm f = d.form;
    if (is_elementwise(n)) return elements(n, f);
    RowInputs in(n.in.size());
    in[0] = f;
    const auto last = static_cast<int64_t>(dims(n.in[0]).size()) - 1;
    if (op == "MatMul") return product(n, f) ? in : RowInputs{};
    if (op == "LayerNorm") return norm(n, f) ? in : RowInputs{};
    if (op == "Softmax" || op == "LogSoftmax") return is_row_axis(f, last) ? RowInputs{} : in;
    if (op == "Dropout") return (f.flat || f.axis == 1) && n.attrs.i("rows", 1) == places_.batch ? in : RowInputs{};
    if (op == "TokenDropout") {
      in[1] = kFlat;
      return places_.batch == 1 && (f.flat || f.axis == 1) && dims(n.in[1]) == Dims{places_.count()} ? in : RowInputs{};
    }
    if (op == "GatherRows") return lookup_rows(n, f);
    if (op == "GatherElements" || op == "Concat" || op == "Split") {
      if (is_row_axis(f, n.attrs.i("axis", 0))) return {};
      for (size_t i = 0; i < in.size(); ++i) {
        if (!places_.has_form(dims(n.in[i]), f) || dims(n.in[i]).size() != dims(n.in[0]).size()) return {};
        in[i] = f;
      }
      return in;
    }
    return moved_rows(n, f);
  }

  RowInputs elements(const Node& n, TokenForm f) const {
    const size_t rank = dims(n.out[0]).size();
    RowInputs in(n.in.size());
    for (size_t i = 0; i < n.in.size(); ++i) {
      if (!n.in[i]) continue;
      const Dims& x = dims(n.in[i]);
      const auto extent = [&](size_t axis) { return axis + x.size() < rank ? 1 : x[axis + x.size() - rank]; };
      if (x.size() == rank && places_.has_form(x, f))
        in[i] = f;
      else if (extent(0) != 1 || (!f.flat && extent(f.axis) != 1))
        return {};  // an operand that is repeated over batch or length only
    }
    return in;
  }
  // A product of rows with a weight (and a bias).
  bool product(const Node& n, TokenForm f) const {
    const size_t rank = dims(n.in[0]).size();
    if (n.attrs.i("transA", 0) != 0 || dims(n.in[1]).size() != 2 || dims(n.out[0]).size() != rank) return false;
    if (n.in.size() > 2 && n.in[2] && dims(n.in[2]).size() != 1) return false;
    return (f.flat ? rank == 2 : rank >= f.axis + 2) && places_.has_form(dims(n.in[0]), f);
  }
  bool norm(const Node& n, TokenForm f) const {
    const Dims& x = dims(n.in[0]);
    int64_t inner = 1;
    for (size_t k = f.flat ? 1 : f.axis + 1; k < x.size(); ++k) inner *= x[k];
    return inner % n.attrs.i("n", 1) == 0;
  }
  // A lookup of table rows by one index per row, such as the weight of the label's class.
  RowInputs lookup_rows(const Node& n, TokenForm f) const {
    const Dims& index = dims(n.in[1]);
    if (n.attrs.i("outer", 1) != 1 || index.size() != (f.flat ? 1u : 2u) || !places_.has_form(index, f)) return {};
    return {std::nullopt, f};
  }
  // Reshape, Transpose, Expand, Slice and reductions over other axes.
  RowInputs moved_rows(const Node& n, TokenForm f) const {
    if (n.in.size() != 1) return {};
    const Dims& x = dims(n.in[0]);
    const auto gives = [&](TokenForm from) {
      return places_.has_form(x, from) && output_form(g_, n, places_, from) == f;
    };
    for (size_t axis = 1; axis < x.size(); ++axis) {
      if (gives({axis, false})) return {TokenForm{axis, false}};
    }
    return gives(kFlat) ? RowInputs{kFlat} : RowInputs{};
  }

  // ---- the new graph

  Dims shape(Dims d, TokenForm f) const {
    d[0] = f.flat ? rows_ : 1;
    if (!f.flat) d[f.axis] = rows_;
    return d;
  }
  // The permutation that moves axis `from` to axis `to` and keeps the order of the other axes.
  static std::vector<int64_t> moving(size_t rank, size_t from, size_t to) {
    std::vector<int64_t> perm;
    for (size_t d = 0; d < rank; ++d) perm.push_back(static_cast<int64_t>(d));
    perm.erase(perm.begin() + static_cast<std::ptrdiff_t>(from));
    perm.insert(perm.begin() + static_cast<std::ptrdiff_t>(to), static_cast<int64_t>(from));
    return perm;
  }
  // Returns the needed rows of v, as a tensor of shape(dims(v), f).
  ValueId rows_of(ValueId v, TokenForm f) {
    if (narrow(v)) return mapped_(v);
    ValueId x = mapped_(v);
    const bool apart = !f.flat && f.axis > 1;  // other axes, such as attention heads, between batch and length
    if (apart) x = b_.transpose(x, moving(dims(v).size(), f.axis, 1));
    Dims d = b_.dims(x);
    const int64_t n = places_.count();
    x = lookup(b_, b_.reshape(x, {n, numel(d) / n}), index_);
    if (!apart) return b_.reshape(x, shape(dims(v), f));
    d[0] = 1;
    d[1] = rows_;
    return b_.transpose(b_.reshape(x, d), moving(dims(v).size(), 1, f.axis));
  }

  void emit(NodeId id) {
    const Node& n = g_.node(id);
    const RowInputs& forms = inputs_[static_cast<size_t>(id.index)];
    // A value of which nothing is needed is written only if its node is: prune() removes it.
    if (std::all_of(n.out.begin(), n.out.end(), [&](ValueId v) { return demand(v).kind == Demand::none; })) return;
    b_.origin = n.origin;
    std::vector<ValueId> in;
    for (size_t i = 0; i < n.in.size(); ++i)
      in.push_back(n.in[i] && !forms.empty() && forms[i] ? rows_of(n.in[i], *forms[i]) : mapped_(n.in[i]));
    std::string op = n.op->name;
    Attrs a = n.attrs;
    if (!forms.empty() && narrow(n.out[0])) {
      if (op == "Reshape" || op == "Expand" || op == "Slice" || op == "GatherRows")
        a.set("dims", shape(dims(n.out[0]), demand(n.out[0]).form));
      if (op == "Dropout") {
        op = "TokenDropout";
        in.push_back(index_);
        a.set("length", places_.length);
      }
    }
    mapped_.set(n.out, b_.ops(op, std::move(in), std::move(a)));
  }

  const Graph& g_;
  const TokenPlaces places_;
  const PlaceValues known_;
  std::vector<Demand> demands_;
  std::vector<RowInputs> inputs_;  // by node; empty: the node reads and writes all elements
  std::set<int32_t> narrow_;       // values of which only rows are computed
  double saved_ = 0;
  Graph out_;
  Builder b_;
  ValueMap mapped_;
  int64_t rows_ = 0;
  ValueId index_;
};

// Returns the names of the inputs that v depends on. Nothing if it depends on parameters or random numbers.
std::optional<std::set<std::string>> sources(const Graph& g, ValueId v) {
  std::set<std::string> names;
  std::set<int32_t> seen;
  std::vector<ValueId> open{v};
  while (!open.empty()) {
    const ValueId at = open.back();
    open.pop_back();
    if (!seen.insert(at.index).second) continue;
    const Value& x = g.value(at);
    if (x.kind == ValueKind::param) return std::nullopt;
    if (x.kind == ValueKind::input) names.insert(x.name);
    if (x.kind != ValueKind::temp) continue;
    const Node& n = g.node(x.producer);
    if (n.op->effect != Effect::pure) return std::nullopt;
    for (const ValueId i : n.in) {
      if (i) open.push_back(i);
    }
  }
  return names;
}

// Returns the labels of the graph: those of CrossEntropy, and integers that are compared with the ignored label of an
// input of that name.
std::vector<RowLabels> labels_of(const Graph& g, const std::map<std::string, int64_t>& ignored) {
  std::vector<RowLabels> labels;
  const auto add = [&](ValueId v, int64_t x) {
    if (std::none_of(labels.begin(), labels.end(), [&](const RowLabels& l) { return l.value == v; }))
      labels.push_back({v, x});
  };
  for (int32_t i = 0; i < g.n_nodes(); ++i) {
    const Node& n = g.node(NodeId{i});
    if (n.op->name == "CrossEntropy") {
      const auto from = sources(g, n.in[1]);
      if (from && !from->empty()) add(n.in[1], n.attrs.i("ignore_index", -100));
    }
    if (n.op->name != "Equal") continue;
    const Value &x = g.value(n.in[0]), &y = g.value(n.in[1]);
    if (is_float(x.dtype) || x.dims.empty() || x.dims.size() > 2 || y.kind != ValueKind::constant ||
        y.constant.numel() != 1)
      continue;
    const auto from = sources(g, n.in[0]);
    const double wanted = y.constant.to_doubles()[0];
    if (from && std::any_of(ignored.begin(), ignored.end(), [&](const auto& named) {
          return from->contains(named.first) && static_cast<double>(named.second) == wanted;
        }))
      add(n.in[0], static_cast<int64_t>(wanted));
  }
  return labels;
}

// Returns the ways to divide `count` rows into (batch, length) that values of the graph have.
std::vector<TokenPlaces> divisions(const Graph& g, int64_t count) {
  std::set<int64_t> batches{1};
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const Value& v = g.value(ValueId{i});
    if (v.kind == ValueKind::temp && v.dims.size() > 1 && v.dims[0] > 0 && v.dims[0] * v.dims[1] == count)
      batches.insert(v.dims[0]);
  }
  std::vector<TokenPlaces> out;
  for (const int64_t b : batches) out.push_back({b, count / b});
  return out;
}

}  // namespace

std::optional<RowSelection> find_label_rows(const Graph& g, const std::map<std::string, int64_t>& ignored,
                                            const Evaluator& evaluator) {
  std::map<int64_t, std::vector<RowLabels>> by_count;
  for (const RowLabels& l : labels_of(g, ignored)) by_count[numel(g.value(l.value).dims)].push_back(l);
  std::optional<RowSelection> best;
  double most = 0;
  for (const auto& [count, labels] : by_count) {
    if (count < 2) continue;
    for (const TokenPlaces p : divisions(g, count)) {
      const RowSelection s{p, labels};
      const double saved = RowSelector(g, s, evaluator).saved() * static_cast<double>(count);
      if (saved <= most) continue;
      most = saved;
      best = s;
    }
  }
  return best;
}

Graph select_rows(const Graph& g, const RowSelection& selection, int64_t rows, const Evaluator& evaluator) {
  return RowSelector(g, selection, evaluator).write(rows);
}

Graph label_graph(const Graph& g, const RowSelection& selection) {
  Graph labels = g;
  labels.param_grads.clear();
  labels.outputs.clear();
  for (size_t i = 0; i < selection.labels.size(); ++i)
    labels.outputs.push_back({cat("labels.", i), selection.labels[i].value});
  return prune(labels);
}

}  // namespace amp
