// find_folded_rows() binds the graph for one row more than at export. Candidates are the tensors that consist of as
// many equal slices as the graph has rows; for this binding, each candidate gets one slice more. Candidates that a
// failing node reads are removed until the set is stable. A remaining candidate holds folded rows if binding fails once
// that candidate keeps the number of slices in the file.
#include "graph/folded_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/error.h"
#include "graph/fixed_rows.h"

namespace amp {

namespace {

int64_t bytes_behind(const HostTensor& t, int axis) {
  int64_t bytes = size_of(t.dtype());
  for (size_t i = static_cast<size_t>(axis) + 1; i < t.dims().size(); ++i) bytes *= t.dims()[i];
  return bytes;
}

bool one_value(const HostTensor& t) { return t.numel() < 2 || holds_copies(t.reshaped({t.numel()}), 0, t.numel()); }

using Faults = std::map<int, Error>;

class FoldedRowSearch {
 public:
  FoldedRowSearch(const SourceGraph& g, const std::vector<int>& outputs, const Evaluator& evaluator)
      : g_(g), outputs_(outputs), evaluator_(evaluator), rows_(fixed_rows(g)) {
    if (rows_ < 2) return;
    fed_.assign(g.values.size(), false);
    for (const int v : fed_inputs(g, g.inputs)) fed_[static_cast<size_t>(v)] = true;
    for (const SourceNode& n : g.nodes) {
      for (const int v : n.outputs) {
        if (v >= 0) fed_[static_cast<size_t>(v)] = reads_batch(n);
      }
    }
    find_candidates();
    find_roots();
  }

  std::vector<FoldedRows> run() {
    std::vector<FoldedRows> out;
    const bool any =
        std::any_of(candidates_.begin(), candidates_.end(), [&](const auto& c) { return trained(c.first); });
    if (!any) return out;
    for (const bool free_reshapes : {false, true}) accept_bound(free_reshapes);
    accept_met();
    for (const auto& [v, found] : found_) {
      if (trained(v)) out.push_back(found);
    }
    return out;
  }

 private:
  bool fed(int v) const { return fed_[static_cast<size_t>(v)]; }
  bool reads_batch(const SourceNode& n) const {
    return std::any_of(n.inputs.begin(), n.inputs.end(), [&](int v) { return v >= 0 && fed(v); });
  }
  bool trained(int v) const { return g_.value(v).kind == SourceKind::parameter && g_.value(v).trainable; }

  // Collects the tensors that consist of rows_ equal slices along axis 0 or 1. Constants are candidates too, because
  // the zeros of an initial state have as many rows as the parameters used with it.
  void find_candidates() {
    constexpr int64_t kMostElements = int64_t{1} << 24;
    std::set<int> flipped;  // masters of copies that are transposed or reshaped
    for (const SourceValue& v : g_.values) {
      if (v.tied_to >= 0 && (v.tied_transposed || v.dims.size() != g_.value(v.tied_to).dims.size()))
        flipped.insert(v.tied_to);
    }
    for (size_t i = 0; i < g_.values.size(); ++i) {
      const SourceValue& v = g_.values[i];
      const int at = static_cast<int>(i);
      if ((v.kind != SourceKind::parameter && v.kind != SourceKind::constant) || !v.data) continue;
      if (v.data.numel() > kMostElements || v.tied_axis >= 0 || flipped.count(at)) continue;
      for (int axis = 0; axis < std::min<int>(2, static_cast<int>(v.data.rank())); ++axis) {
        if (!holds_copies(v.data, axis, rows_)) continue;
        const int64_t extent = v.data.dims()[static_cast<size_t>(axis)] / rows_;
        candidates_[at].push_back({at, axis, extent, rows_});
      }
    }
  }

  // Returns the errors of binding the graph for a batch of `rows` rows, with `rows` slices in each tensor in
  // `followers`.
  Faults faults(int64_t rows, const std::map<int, FoldedRows>& followers, bool free_reshapes) const {
    SourceGraph g = g_;
    for (const int v : g.inputs) {
      std::vector<Dim>& d = g.values[static_cast<size_t>(v)].dims;
      if (!d.empty() && d[0].value == rows_) d[0] = {};
    }
    for (const auto& [v, f] : followers) {
      SourceValue& x = g.values[static_cast<size_t>(v)];
      x.data = repeated(x.data, f.axis, f.extent, rows);
      x.tied_to = -1;
    }
    if (free_reshapes) set_free_rows(g, outputs_, true);
    Faults out;
    Graph graph;
    Builder b(graph, evaluator_);
    bind_tolerant(g, ParamTable(g), options_for(g, rows), b, out);
    return out;
  }

  // Returns options in which a dynamic first dimension is `rows` and other dynamic dimensions are 3.
  BindOptions options_for(const SourceGraph& g, int64_t rows) const {
    BindOptions o;
    o.outputs = outputs_;
    for (const int v : fed_inputs(g, needed_inputs(g, outputs_))) {
      Dims dims;
      for (const Dim& d : g.value(v).dims) dims.push_back(d.value >= 0 ? d.value : dims.empty() ? rows : 3);
      o.input_dims[g.value(v).name] = dims;
    }
    return o;
  }

  void find_roots() {
    roots_.resize(g_.values.size());
    for (const auto& [v, axes] : candidates_) roots_[static_cast<size_t>(v)] = {v};
    for (const SourceNode& n : g_.nodes) {
      if (reads_batch(n)) continue;
      const std::set<int> read = read_by(n);
      for (const int v : n.outputs) {
        if (v >= 0) roots_[static_cast<size_t>(v)] = read;
      }
    }
  }
  std::set<int> read_by(const SourceNode& n) const {
    std::set<int> out;
    for (const int v : n.inputs) {
      if (v >= 0) out.insert(roots_[static_cast<size_t>(v)].begin(), roots_[static_cast<size_t>(v)].end());
    }
    return out;
  }

  void accept_bound(bool free_reshapes) {
    std::map<int, size_t> choice;  // candidate -> index into its possible axes
    for (const auto& [v, axes] : candidates_) {
      if (!found_.count(v)) choice[v] = 0;
    }
    std::map<int, FoldedRows> followers;
    Faults left;
    // If a failing node reads a candidate, the candidate moves to its next axis, or is removed after its last axis.
    // This is repeated until nothing changes.
    for (bool changed = true; changed;) {
      followers = found_;
      for (const auto& [v, k] : choice) followers.emplace(v, candidates_.at(v)[k]);
      left = faults(rows_ + 1, followers, free_reshapes);
      changed = false;
      std::set<int> refused;
      for (const auto& [node, error] : left) refused.merge(read_by(g_.nodes[static_cast<size_t>(node)]));
      for (const int v : refused) {
        const auto it = choice.find(v);
        if (it == choice.end()) continue;
        changed = true;
        if (++it->second == candidates_.at(v).size()) choice.erase(it);
      }
    }
    // Accept a candidate only if binding fails when this candidate keeps the number of slices in the file.
    for (const auto& [v, k] : choice) {
      if (found_.count(v) || !trained(v)) continue;
      const FoldedRows& mine = candidates_.at(v)[k];
      std::map<int, FoldedRows> others = followers;
      for (const int w : joined_with(v)) others.erase(w);
      for (const auto& [node, error] : faults(rows_ + 1, others, free_reshapes)) {
        if (left.count(node) || !reads_batch(g_.nodes[static_cast<size_t>(node)])) continue;
        found_.emplace(v, mine);
        break;
      }
    }
  }

  // Returns v and the candidates that reach a common node with v, if that node does not depend on the batch.
  std::set<int> joined_with(int v) const {
    std::set<int> out = {v};
    for (const SourceNode& n : g_.nodes) {
      if (reads_batch(n)) continue;
      std::set<int> together = read_by(n);
      if (together.count(v)) out.merge(together);
    }
    return out;
  }

  // Binds parameters as constants, so that every value that does not depend on the batch is folded. If a folded value
  // consists of rows_ copies along an axis and a node combines it with the batch along that axis, accepts the
  // candidates that the value is computed from.
  void accept_met() {
    if (std::none_of(candidates_.begin(), candidates_.end(), [&](const auto& c) { return open(c.first); })) return;
    SourceGraph g = g_;
    for (SourceValue& v : g.values) {
      if (v.kind != SourceKind::parameter) continue;
      v.kind = SourceKind::constant;
      v.tied_to = v.tied_axis = -1;
    }
    Faults ignored;
    Graph graph;
    Builder b(graph, evaluator_);
    const Bound bound = bind_tolerant(g, ParamTable(g), options_for(g, rows_), b, ignored);
    for (const SourceNode& n : g_.nodes) {
      if (!reads_batch(n) || !joins_rows(n)) continue;
      for (const int v : n.inputs) {
        if (v < 0 || fed(v) || roots_[static_cast<size_t>(v)].empty() || !meets_rows(n, v, b, bound)) continue;
        for (const int c : roots_[static_cast<size_t>(v)]) {
          if (open(c)) found_.emplace(c, candidates_.at(c).front());
        }
      }
    }
  }

  bool open(int c) const {
    const FoldedRows& f = candidates_.at(c).front();
    return !found_.count(c) && trained(c) && !one_value(repeated(g_.value(c).data, f.axis, f.extent, 1));
  }

  bool meets_rows(const SourceNode& n, int v, Builder& b, const Bound& bound) const {
    const ValueId mine = bound.values[static_cast<size_t>(v)];
    const HostTensor* const t = mine ? b.constant_of(mine) : nullptr;
    if (!t || !is_float(t->dtype())) return false;
    for (int axis = 0; axis < std::min<int>(2, static_cast<int>(t->rank())); ++axis) {
      if (n.op == "Concat" && joined_axis(n, t->rank()) == axis) continue;
      if (n.op == "MatMul" && axis + 2 >= t->rank()) continue;
      for (const int x : n.inputs) {
        if (x < 0 || !fed(x) || !bound.values[static_cast<size_t>(x)]) continue;
        const Dims& d = b.dims(bound.values[static_cast<size_t>(x)]);
        if (d.size() != t->dims().size() || d[static_cast<size_t>(axis)] != t->dims()[static_cast<size_t>(axis)])
          continue;
        if (holds_copies(*t, axis, rows_, 1e-5)) return true;
      }
    }
    return false;
  }

  static int64_t joined_axis(const SourceNode& n, int64_t rank) {
    const int64_t axis = n.attrs.i("axis", 0);
    return axis < 0 ? axis + rank : axis;
  }
  static bool joins_rows(const SourceNode& n) {
    static const std::set<std::string> ops = {"Add", "Sub", "Mul", "Div",    "Where", "MatMul", "Sum",
                                              "Max", "Min", "GRU", "Concat", "LSTM",  "RNN"};
    return ops.count(n.op) > 0;
  }

  const SourceGraph& g_;
  const std::vector<int>& outputs_;
  const Evaluator& evaluator_;
  const int64_t rows_;
  std::vector<bool> fed_;                              // per value: whether it depends on the batch
  std::map<int, std::vector<FoldedRows>> candidates_;  // value -> its possible axes
  // per value that does not depend on the batch: the candidates from which it is computed
  std::vector<std::set<int>> roots_;
  std::map<int, FoldedRows> found_;
};

// Returns a trained parameter with the same elements as `row`, or -1. A row whose elements are all equal (an initial
// value) is not compared, because its equality to a parameter proves nothing.
int equal_parameter(const SourceGraph& g, const HostTensor& row) {
  if (one_value(row)) return -1;
  for (size_t i = 0; i < g.values.size(); ++i) {
    const SourceValue& v = g.values[i];
    if (v.data.rank() == row.rank() && v.data.dims() != row.dims()) continue;
    if (v.kind == SourceKind::parameter && v.trainable && v.tied_to < 0 && v.data.dtype() == row.dtype() &&
        v.data.numel() == row.numel() && std::memcmp(v.data.data(), row.data(), static_cast<size_t>(row.bytes())) == 0)
      return static_cast<int>(i);
  }
  return -1;
}

int add_row(SourceGraph& g, const FoldedRows& f, const HostTensor& row) {
  const SourceValue& whole = g.value(f.value);
  SourceValue v;
  v.name = g.fresh_name(whole.name + ".row");
  v.alias = whole.alias.empty() ? whole.name : whole.alias;
  v.kind = SourceKind::parameter;
  v.dtype = row.dtype();
  v.dtype_known = v.rank_known = true;
  for (const int64_t d : row.dims()) v.dims.push_back({d, ""});
  v.data = row;
  v.trainable = whole.trainable;
  v.reason = whole.reason;
  return g.add_value(std::move(v));
}

}  // namespace

std::vector<FoldedRows> find_folded_rows(const SourceGraph& g, const std::vector<int>& outputs,
                                         const Evaluator& evaluator) {
  return FoldedRowSearch(g, outputs, evaluator).run();
}

std::vector<std::string> tie_folded_rows(SourceGraph& g, const std::vector<FoldedRows>& folded) {
  std::vector<std::string> names;
  for (const FoldedRows& f : folded) {
    if (g.value(f.value).tied_to >= 0) continue;  // this copy is tied below, together with its master
    const HostTensor slice = repeated(g.value(f.value).data, f.axis, f.extent, 1), row = without_copies(slice, f.axis);
    const int equal = row.numel() == slice.numel() ? equal_parameter(g, row) : -1;
    const int master = equal < 0 ? add_row(g, f, row) : equal;
    for (size_t i = 0; i < g.values.size(); ++i) {
      SourceValue& v = g.values[i];
      if (static_cast<int>(i) != f.value && (v.kind != SourceKind::parameter || v.tied_to != f.value)) continue;
      v.tied_to = master;
      v.tied_axis = f.axis;
    }
    names.push_back(g.shown(f.value));
  }
  return names;
}

HostTensor without_copies(const HostTensor& t, int except) {
  HostTensor out = t;
  if (one_value(t)) return out;
  for (int axis = 0; axis < static_cast<int>(t.rank()); ++axis) {
    const int64_t extent = out.dims()[static_cast<size_t>(axis)];
    if (axis != except && holds_copies(out, axis, extent)) out = repeated(out, axis, 1, 1);
  }
  return out;
}

HostTensor repeated(const HostTensor& t, int axis, int64_t extent, int64_t repeats) {
  const int64_t unit = bytes_behind(t, axis), whole = unit * t.dims()[static_cast<size_t>(axis)], copy = unit * extent;
  Dims dims = t.dims();
  dims[static_cast<size_t>(axis)] = extent * repeats;
  HostTensor out = HostTensor::empty(t.dtype(), dims);
  auto* to = static_cast<char*>(out.mutable_data());
  for (int64_t at = 0; at < t.bytes(); at += whole) {
    for (int64_t k = 0; k < repeats; ++k, to += copy)
      std::memcpy(to, static_cast<const char*>(t.data()) + at, static_cast<size_t>(copy));
  }
  return out;
}

bool holds_copies(const HostTensor& t, int axis, int64_t repeats, double tolerance) {
  const int64_t extent = t.dims()[static_cast<size_t>(axis)];
  if (repeats < 2 || t.numel() == 0 || extent % repeats != 0) return false;
  const int64_t whole = bytes_behind(t, axis) * extent, copy = whole / repeats, size = size_of(t.dtype());
  const auto* const p = static_cast<const char*>(t.data());
  const std::vector<double> x = tolerance > 0 ? t.to_doubles() : std::vector<double>();
  double largest = 0;
  for (const double v : x) largest = std::max(largest, std::abs(v));
  for (int64_t at = 0; at < t.bytes(); at += whole) {  // compares each slice with the next one
    if (tolerance == 0 && std::memcmp(p + at, p + at + copy, static_cast<size_t>(whole - copy)) != 0) return false;
    for (int64_t i = at / size; tolerance > 0 && i < (at + whole - copy) / size; ++i) {
      const double difference = x[static_cast<size_t>(i)] - x[static_cast<size_t>(i + copy / size)];
      if (!(std::abs(difference) <= tolerance * largest)) return false;
    }
  }
  return true;
}

}  // namespace amp
