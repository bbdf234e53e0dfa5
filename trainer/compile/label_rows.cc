// Row selection of a session. A plan per bucket holds the graph that computes which rows have a label; the CPU
// evaluates it for each batch. The number of rows is rounded up with rows without a label, whose loss is 0, and is
// part of the Program's key.

#include "trainer/compile/label_rows.h"

#include <algorithm>
#include <cmath>

#include "backend/interpreter.h"
#include "base/error.h"
#include "base/text.h"
#include "trainer/compile/gradient_penalty.h"

namespace amp {

int64_t rounded_rows(int64_t needed, int64_t count) {
  constexpr int64_t kUnit = 8;
  const auto up = [](int64_t n, int64_t step) { return (n + step - 1) / step * step; };
  int64_t size = 2 * kUnit;
  while (size < needed) size *= 2;
  if (size > 2 * kUnit && size / 4 * 3 >= needed) size = size / 4 * 3;
  return std::min({size, up(std::max<int64_t>(needed, 1), std::max(kUnit, up(count / 8, kUnit))), count});
}

int64_t chunk_rows(int64_t rows, int64_t row_bytes, int64_t weight_bytes) {
  constexpr int64_t kBytes = int64_t{64} << 20, kUnit = 64, kLeast = 256;
  if (row_bytes == 0) return rows;
  const int64_t chunk = std::max(kLeast, kBytes / row_bytes / kUnit * kUnit) * (weight_bytes > 0 ? 2 : 1);
  const int64_t saved = 2 * (rows - chunk) * row_bytes;  // logits and their gradient
  return saved >= kBytes + 3 * weight_bytes ? chunk : rows;
}

namespace {

std::map<std::string, int64_t> ignored_labels(const Losses& losses) {
  std::map<std::string, int64_t> out;
  for (const LossSpec& s : losses.parts) {
    if (const std::string label = s.label_name(); !label.empty()) out.emplace(label, s.ignore_index());
  }
  return out;
}

// Returns one element per row: true if the row has a label that is not ignored.
std::vector<bool> labeled(const Graph& graph, const RowSelection& rows, const Tensors& inputs) {
  std::vector<bool> out(static_cast<size_t>(rows.places.count()), false);
  const Interpreted labels = interpret(graph, inputs, {});
  for (size_t i = 0; i < rows.labels.size(); ++i) {
    const std::vector<int64_t> ids = labels.outputs.at(cat("labels.", i)).to_ints();
    for (size_t row = 0; row < ids.size(); ++row) out[row] = out[row] || ids[row] != rows.labels[i].ignored;
  }
  return out;
}

std::string percent(int64_t part, int64_t whole) {
  const int64_t tenths = std::llround(1000.0 * static_cast<double>(part) / static_cast<double>(whole));
  return cat(tenths / 10, '.', tenths % 10, " %");
}

}  // namespace

const LabelRows::Plan& LabelRows::plan(const GraphRequest& r, const Packing* packing) {
  constexpr int64_t kMostPlans = 256;  // each plan takes some KB
  const PlanKey key{GraphKey(r), packing ? packing->tokens : 0};
  if (const Plan* known = plans_.find(key)) return *known;
  Plan made;
  const std::shared_ptr<Graph> graph = compose_(r, packing);
  if (const auto found = find_label_rows(*graph, ignored_labels(*r.losses), cpu_evaluator())) {
    const Value& w = graph->value(found->weight);
    // Logits and their gradient are fp32 even if products are computed in 16 bits.
    const int64_t wide = size_of(DType::f32);
    const bool trains = r.form == GraphForm::train && has_gradient(*graph, found->weight);
    made = {*found, label_graph(*graph, *found), found->widest * wide, trains ? numel(w.dims) * wide : 0};
  }
  plans_.make_room(1, kMostPlans, [](const Plan&) {});
  return plans_.add(key, std::move(made), 1);
}

// True if a trained parameter is among the values from which the weight is computed.
bool LabelRows::has_gradient(const Graph& g, ValueId weight) const {
  const Value& v = g.value(weight);
  if (v.kind == ValueKind::param)
    return source_.values[static_cast<size_t>(table_.source_value[static_cast<size_t>(v.slot)])].trainable;
  if (v.kind != ValueKind::temp) return false;
  const Node& n = g.node(v.producer);
  return std::any_of(n.in.begin(), n.in.end(), [&](ValueId x) { return x && has_gradient(g, x); });
}

std::optional<Packing> LabelRows::choose(const GraphRequest& r, std::optional<Packing> packing) {
  if (!enabled_ || !r.losses || !r.outputs.empty() || penalizes_gradients(*r.losses)) return packing;
  const Plan& plan = this->plan(r, packing ? &*packing : nullptr);
  if (plan.labels.outputs.empty()) return packing;
  Tensors inputs = r.batch;
  if (packing) inputs.insert(packing->inputs.begin(), packing->inputs.end());
  const std::vector<bool> needed = labeled(plan.labels, plan.rows, inputs);
  const auto count = static_cast<int64_t>(needed.size()), n = std::count(needed.begin(), needed.end(), true);
  int64_t rows = rounded_rows(n, count);
  if (rows * 20 > count * 19) rows = count;
  const bool chunks = chunk_rows(rows, plan.head, plan.trains) < rows;
  if (rows == count && !chunks) return packing;
  if (!logged_ && r.form == GraphForm::train) {
    logged_ = true;
    const int64_t chunk = chunk_rows(rows, plan.head, plan.trains);
    log_.info(rows == count
                  ? cat("the head computes the ", count, " rows of the first micro-batch in chunks of ", chunk)
                  : cat("the loss reads ", percent(n, count), " of the ", count, " rows of the first micro-batch: ",
                        "only rows with a label are computed after the last attention",
                        chunks ? cat(", in chunks of ", chunk) : std::string()));
  }
  std::vector<int64_t> indices;
  int64_t more = rows - n;
  for (int64_t row = 0; row < count; ++row) {
    if (needed[static_cast<size_t>(row)] || more-- > 0) indices.push_back(row);
  }
  if (!packing) packing.emplace();
  packing->rows = rows;
  packing->chunk = chunk_rows(rows, plan.head, plan.trains);
  packing->inputs[kRowInput] = HostTensor::of<int64_t>({rows}, indices);
  return packing;
}

std::shared_ptr<Graph> LabelRows::compose(const GraphRequest& r, const Packing* packing) const {
  std::shared_ptr<Graph> graph = compose_(r, packing && packing->tokens > 0 ? packing : nullptr);
  if (!packing || packing->rows == 0) return graph;
  const auto found = find_label_rows(*graph, ignored_labels(*r.losses), cpu_evaluator());
  check(found.has_value(), "row selection: a composed graph differs from its plan's");
  *graph = select_rows(*graph, *found, packing->rows, packing->chunk, cpu_evaluator());
  return graph;
}

}  // namespace amp
