// The number of fixed rows is stored in the SourceGraph: the first dim of each batch input has the symbol kMark.
// RowPadding fills missing rows with copies of real rows, because zeros may be invalid inputs (a fully masked row, a
// norm of zero).
#include "graph/fixed_rows.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace amp {

namespace {

constexpr const char* kMark = "#rows";  // symbol of the first dimension of batch inputs

bool marked(const SourceValue& v) {
  return v.rank_known && !v.dims.empty() && v.dims[0].value > 0 && v.dims[0].symbol == kMark;
}

ValueId first_rows(Builder& b, ValueId x, int64_t rows, size_t axis = 0) {
  Dims d = b.dims(x);
  d[axis] = rows;
  return b.op(
      "Slice", {x},
      {{"starts", std::vector<int64_t>(d.size(), 0)}, {"steps", std::vector<int64_t>(d.size(), 1)}, {"dims", d}});
}

// Returns x with its rows repeated cyclically until there are `rows` rows.
ValueId repeated_rows(Builder& b, ValueId x, int64_t rows) {
  const int64_t own = b.dims(x)[0];
  std::vector<ValueId> parts(static_cast<size_t>(rows / own), x);
  if (rows % own != 0) parts.push_back(first_rows(b, x, rows % own));
  return b.op("Concat", std::move(parts), {{"axis", int64_t{0}}});
}

}  // namespace

int64_t fixed_rows(const SourceGraph& g) {
  for (const int v : g.inputs) {
    if (marked(g.value(v))) return g.value(v).dims[0].value;
  }
  return 0;
}

void set_fixed_rows(SourceGraph& g, int64_t rows) {
  if (rows == 0) return;
  for (const int v : g.inputs) {
    SourceValue& x = g.values[static_cast<size_t>(v)];
    if (is_fixed_whole(x)) continue;
    if (x.rank_known && !x.dims.empty() && (x.dims[0].value < 0 || x.dims[0].value == rows)) x.dims[0] = {rows, kMark};
  }
}

void set_fixed_length(SourceGraph& g, int64_t length) {
  for (const int v : g.inputs) {
    SourceValue& x = g.values[static_cast<size_t>(v)];
    for (size_t i = 1; i < x.dims.size(); ++i) {
      if (x.dims[i].value < 0) x.dims[i] = {length, ""};
    }
  }
}

int set_free_rows(SourceGraph& g, const std::vector<int>& outputs, bool free) {
  const std::vector<bool> live = live_nodes(g, outputs);
  std::vector<bool> fed(g.values.size(), false);  // per value: whether it depends on an input
  for (const int v : fed_inputs(g, g.inputs)) fed[static_cast<size_t>(v)] = true;
  int set = 0;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    SourceNode& node = g.nodes[n];
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                 [&](int v) { return v >= 0 && fed[static_cast<size_t>(v)]; });
    if (!any) continue;
    for (const int v : node.outputs) {
      if (v >= 0) fed[static_cast<size_t>(v)] = true;
    }
    if (!live[n] || node.op != "Reshape" || !node.domain.empty() || node.inputs.size() < 2 || node.inputs[1] < 0)
      continue;
    const HostTensor& shape = g.value(node.inputs[1]).data;
    if (g.value(node.inputs[1]).kind != SourceKind::constant || shape.numel() < 1 || shape.to_ints()[0] < 1) continue;
    node.attrs.set(kFreeRows, int64_t{free});
    ++set;
  }
  return set;
}

RowPadding::RowPadding(const SourceGraph& g, const BindOptions& o) : g_(g), padded_(o), fixed_(fixed_rows(g)) {
  if (fixed_ == 0) return;
  for (const int v : needed_inputs(g, o.outputs)) {
    const auto it = padded_.input_dims.find(g.value(v).name);
    if (!marked(g.value(v)) || it == padded_.input_dims.end() || it->second.empty()) continue;
    rows_ = std::max(rows_, it->second[0]);
    it->second[0] = fixed_;
  }
  if (rows_ > fixed_)
    fail(Exit::usage, "E_BATCH_SIZE", cat("the model takes batches of ", fixed_, " rows, this one has ", rows_),
         cat("its graph holds that number: give ", fixed_, " rows or less"));
}

ValueId RowPadding::pad(Builder& b, int source_value, ValueId input) const {
  if (rows_ == 0 || !marked(g_.value(source_value)) || b.dims(input).empty() || b.dims(input)[0] == 0) return input;
  if (b.dims(input)[0] == fixed_) return input;
  const Origin before = b.origin;
  b.origin = {};
  const ValueId out = repeated_rows(b, input, fixed_);
  b.origin = before;
  return out;
}

void RowPadding::cut(Builder& b, const std::vector<int>& outputs, Bound& bound) const {
  if (rows_ == 0 || rows_ == fixed_) return;
  b.origin = {};
  for (const int v : outputs) {
    ValueId& x = bound.values[static_cast<size_t>(v)];
    if (!x) continue;
    const SourceValue& source = g_.value(v);
    if (source.kind == SourceKind::input && b.graph().input(source.name)) {
      x = b.graph().input(source.name);
      continue;
    }
    if (source.kind != SourceKind::temp || b.constant_of(x) || b.dims(x).empty()) continue;
    const Dims d = b.dims(x);
    size_t axis = 0;
    if (d[0] == 0 || d[0] % fixed_ != 0) axis = static_cast<size_t>(std::find(d.begin(), d.end(), fixed_) - d.begin());
    if (axis == d.size()) continue;
    const int64_t rows = d[axis] / fixed_ * rows_;
    x = first_rows(b, x, rows, axis);
  }
}

bool is_fixed_whole(const SourceValue& x) { return x.data && x.rank_known && x.data.dims().size() == x.dims.size(); }

std::vector<int> fed_inputs(const SourceGraph& g, const std::vector<int>& inputs) {
  std::vector<int> out;
  for (const int v : inputs) {
    if (!is_fixed_whole(g.value(v))) out.push_back(v);
  }
  return out;
}

}  // namespace amp
