// Row selection (label_rows.h). RowSelector goes through the graph backwards, from the losses, to find the values of
// which only rows with a label are needed. Then it writes a graph that computes only these rows of such values.
// PlaceValues (padding_flow.h) shows where a loss is 0; for that analysis, a row without a label takes the role of a
// padded position.

#include "ops/passes/label_rows.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "graph/copier.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "ops/compose.h"

namespace amp {

namespace {

constexpr TokenForm kFlat{1, true};

// How much of a value its readers need.
struct RowDemand {
  enum Kind : uint8_t { none, rows, all } kind = none;
  TokenForm form;  // if kind is `rows`: how rows are laid out
  void join(const RowDemand& other) {
    if (other.kind == none || (kind == other.kind && form == other.form)) return;
    *this = kind == none ? other : RowDemand{all, {}};
  }
};

// For each input of a node: the form of the rows that the node reads; nullopt: the node reads all elements.
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
    for (const auto& o : g_.outputs) want(o.value, {RowDemand::all, {}});
    for (int32_t n = g_.n_nodes(); n-- > 0;) visit(NodeId{n});
  }

  double saved() const { return saved_; }  // operations saved per row that is not computed
  int64_t widest() const { return widest_; }
  ValueId weight() const { return weight_; }

  Graph write(int64_t rows, int64_t chunk) {
    const ValueId all = out_.add_input(kRowInput, DType::i64, {rows});
    const std::vector<bool> late = after_sums();
    if (late.empty()) chunk = rows;
    const auto emit_all = [&](bool selected, bool after) {
      for (int32_t n = 0; n < g_.n_nodes(); ++n) {
        const auto i = static_cast<size_t>(n);
        if (late.empty() || (inputs_[i].empty() != selected && late[i] == after)) emit(NodeId{n});
      }
    };
    if (!late.empty()) emit_all(false, false);
    for (int64_t start = 0; start < rows; start += chunk) {
      rows_ = std::min(chunk, rows - start);
      index_ = rows_ == rows ? all : slice(b_, all, 0, start, rows_);
      emit_all(true, false);
    }
    if (!late.empty()) emit_all(false, true);
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
  const RowDemand& demand(ValueId v) const { return demands_[at(v)]; }
  bool narrow(ValueId v) const { return demand(v).kind == RowDemand::rows && narrow_.contains(v.index); }
  void want(ValueId v, const RowDemand& d) {
    if (v) demands_[at(v)].join(d);
  }

  // Returns for each node whether it depends on a sum over rows. Returns an empty vector if a node that computes single
  // rows depends on such a sum, for example if it divides each row by the number of labels. In that case rows cannot be
  // computed in chunks.
  std::vector<bool> after_sums() const {
    std::vector<bool> late(inputs_.size(), false), value(demands_.size(), false);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Node& n = g_.node(NodeId{static_cast<int32_t>(i)});
      const bool reads = std::any_of(n.in.begin(), n.in.end(), [&](ValueId v) { return v && value[at(v)]; });
      if (reads && !inputs_[i].empty()) return {};
      late[i] = reads;
      const bool sum = !inputs_[i].empty() && !narrow(n.out[0]);
      for (const ValueId v : n.out) value[at(v)] = reads || sum;
    }
    return late;
  }

  void visit(NodeId id) {
    const Node& n = g_.node(id);
    if (std::all_of(n.out.begin(), n.out.end(), [&](ValueId v) { return demand(v).kind == RowDemand::none; })) return;
    RowInputs in = sum_of_rows(n);
    if (in.empty()) {
      in = row_inputs(n);
      for (size_t i = 0; i < n.out.size() && !in.empty(); ++i) narrow_.insert(n.out[i].index);
      if (!in.empty() && n.op->name == "MatMul") count_product(n);
    }
    for (size_t i = 0; i < n.in.size(); ++i)
      want(n.in[i], !in.empty() && in[i] ? RowDemand{RowDemand::rows, *in[i]} : RowDemand{RowDemand::all, {}});
    inputs_[static_cast<size_t>(id.index)] = std::move(in);
  }

  void count_product(const Node& n) {
    const int64_t per_row = numel(dims(n.out[0])) / places_.count();
    saved_ += 2.0 * static_cast<double>(per_row) * static_cast<double>(dims(n.in[0]).back());
    if (per_row <= widest_) return;
    widest_ = per_row;
    weight_ = n.in[1];
  }

  // ---- The rows that a node reads

  bool is_row_axis(TokenForm f, int64_t axis) const {
    return axis == 0 || (!f.flat && axis == static_cast<int64_t>(f.axis));
  }
  // Returns RowInputs for a node that sums over rows, if rows without a label add 0 to the sum; otherwise an empty
  // list.
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

  // Returns RowInputs for a node that computes each row separately, if only rows of its outputs are needed; otherwise
  // an empty list.
  RowInputs row_inputs(const Node& n) const {
    const std::string& op = n.op->name;
    const RowDemand& d = demand(n.out[0]);
    if (d.kind != RowDemand::rows || n.in.empty()) return {};
    for (const ValueId v : n.out) {  // only the first output has rows, except in Split
      const bool same = demand(v).kind == RowDemand::rows && demand(v).form == d.form && op == "Split";
      if (v != n.out[0] && demand(v).kind != RowDemand::none && !same) return {};
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
        return {};  // the operand broadcasts along only one of batch and length
    }
    return in;
  }
  // Returns whether the node is a product of rows with a weight (and a bias).
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
  // Returns RowInputs for a lookup of table rows by one index per row, such as the weight of the label's class.
  RowInputs lookup_rows(const Node& n, TokenForm f) const {
    const Dims& index = dims(n.in[1]);
    if (n.attrs.i("outer", 1) != 1 || index.size() != (f.flat ? 1u : 2u) || !places_.has_form(index, f)) return {};
    return {std::nullopt, f};
  }
  // Returns RowInputs for Reshape, Transpose, Expand, Slice, and reductions over other axes than those of the rows.
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

  // ---- Writing the new graph

  Dims shape(Dims d, TokenForm f) const {
    d[0] = f.flat ? rows_ : 1;
    if (!f.flat) d[f.axis] = rows_;
    return d;
  }
  // Returns the needed rows of v, as a tensor of shape(dims(v), f).
  ValueId rows_of(ValueId v, TokenForm f) {
    if (narrow(v)) return mapped_(v);
    ValueId x = mapped_(v);
    const bool apart = !f.flat && f.axis > 1;  // other axes, such as heads, are between batch and length
    if (apart) x = b_.transpose(x, moved_axis(dims(v).size(), f.axis, 1));
    Dims d = b_.dims(x);
    const int64_t n = places_.count();
    x = lookup(b_, b_.reshape(x, {n, numel(d) / n}), index_);
    if (!apart) return b_.reshape(x, shape(dims(v), f));
    d[0] = 1;
    d[1] = rows_;
    return b_.transpose(b_.reshape(x, d), moved_axis(dims(v).size(), 1, f.axis));
  }

  void emit(NodeId id) {
    const Node& n = g_.node(id);
    const RowInputs& forms = inputs_[static_cast<size_t>(id.index)];
    // If no output of a node is needed, the node is not written. (An output that is not needed is written if another
    // one is; prune() removes it.)
    if (std::all_of(n.out.begin(), n.out.end(), [&](ValueId v) { return demand(v).kind == RowDemand::none; })) return;
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
    std::vector<ValueId> made = b_.ops(op, std::move(in), std::move(a));
    if (!forms.empty() && !narrow(n.out[0])) {  // a sum of rows: the sums of all chunks are added
      ValueId& sum = sums_[id.index];
      made[0] = sum = sum ? b_.op("Add", {sum, made[0]}) : made[0];
    }
    mapped_.set(n.out, made);
  }

  const Graph& g_;
  const TokenPlaces places_;
  const PlaceValues known_;
  std::vector<RowDemand> demands_;
  std::vector<RowInputs> inputs_;    // indexed by node: forms of the rows that it reads; empty: all elements
  std::set<int32_t> narrow_;         // values of which only some rows are computed
  std::map<int32_t, ValueId> sums_;  // node that sums rows -> the sum over the chunks so far
  double saved_ = 0;
  int64_t widest_ = 0;
  ValueId weight_;
  Graph out_;
  Builder b_;
  ValueMap mapped_;
  int64_t rows_ = 0;
  ValueId index_;
};

// Returns the ways to divide `count` rows into (batch, length) that occur in the dims of the graph's values.
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
  for (const RowLabels& l : row_labels(g, ignored)) by_count[numel(g.value(l.value).dims)].push_back(l);
  std::optional<RowSelection> best;
  double most = 0;
  for (const auto& [count, labels] : by_count) {
    if (count < 2) continue;
    for (const TokenPlaces p : divisions(g, count)) {
      const RowSelection s{p, labels, 0, {}};
      const RowSelector selector(g, s, evaluator);
      if (selector.saved() * static_cast<double>(count) <= most) continue;
      most = selector.saved() * static_cast<double>(count);
      best = RowSelection{p, labels, selector.widest(), selector.weight()};
    }
  }
  return best;
}

Graph select_rows(const Graph& g, const RowSelection& selection, int64_t rows, int64_t chunk,
                  const Evaluator& evaluator) {
  return RowSelector(g, selection, evaluator).write(rows, chunk);
}

}  // namespace amp
