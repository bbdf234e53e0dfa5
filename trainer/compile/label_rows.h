// LabelRows: decides for each micro-batch of a session which rows (tokens) are computed after the last attention: those
// with a label (ops/passes/label_rows.h). The decision depends only on the bucket's graph and the batch's labels, so a
// resumed run computes the same rows as an uninterrupted one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/log.h"
#include "ops/passes/label_rows.h"
#include "trainer/compile/packing.h"
#include "trainer/compile/program_cache.h"

namespace amp {

class LabelRows {
 public:
  // Composes the graph of a request, without padding if packing is not null (PaddingRemoval::compose).
  using Compose = std::function<std::shared_ptr<Graph>(const GraphRequest&, const Packing*)>;
  // table and source must outlive this object. They determine which weights are trained.
  LabelRows(Compose compose, const SourceGraph& source, const ParamTable& table, bool enabled, Log log)
      : compose_(std::move(compose)), source_(source), table_(table), enabled_(enabled), log_(std::move(log)) {}

  // Adds the rows to compute to the batch's packing. Unchanged if all rows are computed at once. This is so if the
  // graph permits no selection, or if less than 5 % of the rows would be saved and the rows need no chunks.
  std::optional<Packing> choose(const GraphRequest& r, std::optional<Packing> packing);
  // As Compose, but selects rows if packing says so.
  std::shared_ptr<Graph> compose(const GraphRequest& r, const Packing* packing) const;

 private:
  struct Plan {
    RowSelection rows;
    Graph labels;                  // label_graph(); without outputs: no rows are selected
    int64_t head = 0, trains = 0;  // bytes of the logits of a row, and of the head's weight if it has a gradient
  };
  const Plan& plan(const GraphRequest& r, const Packing* packing);

  bool has_gradient(const Graph& g, ValueId weight) const;

  const Compose compose_;
  const SourceGraph& source_;
  const ParamTable& table_;
  const bool enabled_;
  const Log log_;
  using PlanKey = std::pair<GraphKey, int64_t>;  // request, number of tokens without padding
  BoundedCache<PlanKey, Plan> plans_;            // each plan counts as one byte, so the limit is a number of plans
  bool logged_ = false;                          // whether the share of rows was logged
};

// Returns the number of rows that a graph computes if `needed` of `count` rows are needed. There are at most two sizes
// per factor of two and steps of count / 8, so that few Programs are compiled.
int64_t rounded_rows(int64_t needed, int64_t count);

// Returns the number of rows per chunk; `rows` means a single chunk. Only one chunk's logits are stored at a time.
// row_bytes: bytes of the logits of a row. weight_bytes: bytes of the head's weight if it has a gradient, else 0. Each
// chunk then stores a part of that gradient, so chunks are larger, and are used only if they save more than they cost.
int64_t chunk_rows(int64_t rows, int64_t row_bytes, int64_t weight_bytes);

}  // namespace amp
