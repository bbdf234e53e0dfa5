// looked_up_rows(): the embedding tables of a model that looks up each column of an input in a separate table. Follower
// walks the nodes in topological order and records which columns of the input each value holds. It follows views,
// Gather, Slice and Split along the last axis with constant indices; other nodes end the trace.

#include <algorithm>
#include <map>
#include <optional>

#include "importer/surgery/edit.h"
#include "run/data/features.h"

namespace amp {

namespace {

using Columns = std::vector<size_t>;  // the columns of the input that a value holds, in order

class Follower {
 public:
  Follower(const SourceGraph& g, int input, int64_t width) : g_(g), rows_(static_cast<size_t>(width)) {
    Columns all;
    for (size_t c = 0; c < rows_.size(); ++c) all.push_back(c);
    columns_[input] = all;
  }

  std::vector<int64_t> run() {
    for (const SourceNode& n : g_.nodes) {  // topological order: producers precede readers
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        const auto at = columns_.find(n.inputs[i]);
        if (at != columns_.end()) visit(n, i, at->second);
      }
    }
    return rows_;
  }

 private:
  std::optional<std::vector<int64_t>> constant(const SourceNode& n, size_t i) const {
    if (i >= n.inputs.size() || n.inputs[i] < 0) return std::nullopt;
    const SourceValue& v = g_.values[static_cast<size_t>(n.inputs[i])];
    if (!v.data || is_float(v.data.dtype())) return std::nullopt;
    return v.data.to_ints();
  }

  void visit(const SourceNode& n, size_t i, const Columns columns) {
    if (i == 0 && is_plain_view(n, false)) columns_[n.outputs.at(0)] = columns;
    if (n.op == "Gather" && i == 1) look_up(n, columns);
    if (i != 0) return;
    if (n.op == "Gather" && is_last(n.attrs.i("axis", 0))) pick(n, columns);
    if (n.op == "Slice") slice(n, columns);
    if (n.op == "Split") split(n, columns);
  }

  static bool is_last(int64_t axis) { return axis == 1 || axis == -1; }

  void look_up(const SourceNode& n, const Columns& columns) {
    const SourceValue& t = g_.values[static_cast<size_t>(n.inputs[0])];
    if (!t.data || t.data.rank() != 2 || n.attrs.i("axis", 0) != 0) return;
    for (const size_t c : columns) {
      const int64_t rows = t.data.dims()[0];
      rows_[c] = rows_[c] ? std::min(rows_[c], rows) : rows;
    }
  }

  void pick(const SourceNode& n, const Columns& columns) {
    const auto places = constant(n, 1);
    if (!places) return;
    Columns out;
    const auto count = static_cast<int64_t>(columns.size());
    for (const int64_t p : *places) {
      const int64_t at = p < 0 ? p + count : p;
      if (at < 0 || at >= count) return;
      out.push_back(columns[static_cast<size_t>(at)]);
    }
    columns_[n.outputs.at(0)] = out;
  }

  void slice(const SourceNode& n, const Columns& columns) {
    const auto begins = constant(n, 1), ends = constant(n, 2);
    if (!begins || !ends) return;
    const std::vector<int64_t> axes = constant(n, 3).value_or(std::vector<int64_t>{0, 1});
    const std::vector<int64_t> steps = constant(n, 4).value_or(std::vector<int64_t>(begins->size(), 1));
    const auto count = static_cast<int64_t>(columns.size());
    Columns out = columns;
    for (size_t k = 0; k < begins->size() && k < axes.size() && k < steps.size(); ++k) {
      if (!is_last(axes[k])) continue;
      if (steps[k] != 1) return;
      const auto place = [&](int64_t p) { return std::clamp<int64_t>(p < 0 ? p + count : p, 0, count); };
      const int64_t from = place((*begins)[k]), to = std::max(from, place((*ends)[k]));
      out.assign(columns.begin() + from, columns.begin() + to);
    }
    columns_[n.outputs.at(0)] = out;
  }

  void split(const SourceNode& n, const Columns& columns) {
    if (!is_last(n.attrs.i("axis", 0))) return;
    const size_t parts = n.outputs.size();
    std::vector<int64_t> sizes = constant(n, 1).value_or(n.attrs.ints("split", {}));
    const size_t each = (columns.size() + parts - 1) / parts;
    if (sizes.empty()) sizes.assign(parts, static_cast<int64_t>(each));
    size_t at = 0;
    for (size_t i = 0; i < parts && i < sizes.size(); ++i) {
      const size_t end = std::min(columns.size(), at + static_cast<size_t>(std::max<int64_t>(0, sizes[i])));
      if (n.outputs[i] >= 0)
        columns_[n.outputs[i]] = Columns(columns.begin() + static_cast<std::ptrdiff_t>(at),
                                         columns.begin() + static_cast<std::ptrdiff_t>(end));
      at = end;
    }
  }

  const SourceGraph& g_;
  std::map<int, Columns> columns_;
  std::vector<int64_t> rows_;
};

}  // namespace

std::vector<int64_t> looked_up_rows(const SourceGraph& graph, int input, int64_t width) {
  return Follower(graph, input, width).run();
}

}  // namespace amp
