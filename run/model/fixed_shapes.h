// Batch sizes and lengths that a model file bakes into its graph (graph/fixed_rows.h), as runs and verbs take them.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "graph/fixed_rows.h"
#include "run/spec/spec.h"
#include "trainer/losses/losses.h"

namespace amp {

// What became of a file's sizes: those that its graph holds, and the rows that it held before they were freed.
struct ModelShapes : FixedShapes {
  int64_t freed_rows = 0;  // 0: none were
  std::string holder;      // the first node that takes no other number of rows; empty: none refuses one
};

// Finds the sizes that the outputs can be computed for and declares them as the graph's own. Rows that only Reshapes
// hold are freed where outputs of random inputs show that every row is computed by itself.
ModelShapes fix_shapes(SourceGraph& graph, const std::vector<int>& outputs);
// The same for outputs that are not all chosen yet: what was declared before can be taken back.
class ShapeFixing {
 public:
  explicit ShapeFixing(SourceGraph& graph);
  const ModelShapes& fix(const std::vector<int>& outputs);
  const ModelShapes& found() const { return found_; }
  bool looked() const { return looked_; }  // false: an operator of the outputs is unknown

 private:
  void free(const std::vector<int>& outputs);
  SourceGraph& graph_;
  std::vector<std::vector<Dim>> declared_;  // of each input
  ModelShapes found_;
  bool looked_ = false;
};

// Parameters that the exporter repeated for every row of a batch (graph/folded_rows.h) train as one row each, unless
// --tie_weights is none or file. After fix_shapes().
void tie_rows(const RunSpec& spec, SourceGraph& graph, const std::vector<int>& outputs, const Log& log);

// One note for people: "this file takes batches of 8".
void tell_fixed_shapes(const ModelShapes& found, const Log& log);

// Training in batches of fixed_rows(graph): takes that number where --batch_size is not given. E_BATCH_SIZE (usage) for
// a larger one. rows_per_sample: of the inputs.
void fit_batch_size(RunSpec& spec, const SourceGraph& graph, int64_t rows_per_sample, const Log& log);
// The same for evaluation and predictions.
void fit_evaluation_rows(RunSpec& spec, const SourceGraph& graph, int64_t rows_per_sample);

// Whether a short batch in a graph of fixed rows would give other losses or gradients than its rows alone: batch
// statistics, and losses that the model computes itself, would count the padding.
bool padding_counts(const SourceGraph& graph, const Losses& losses, bool batch_statistics);

}  // namespace amp
