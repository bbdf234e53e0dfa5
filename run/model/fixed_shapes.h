// Fits runs to batch sizes and lengths that a model file fixes in its graph (graph/fixed_rows.h).
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "graph/fixed_rows.h"
#include "trainer/losses/losses.h"

namespace amp {

struct ModelSpec;
struct RunSpec;

// The sizes that a file fixes, and those that were freed.
struct ModelShapes : FixedShapes {
  int64_t freed_rows = 0;  // batch size of the file before it was freed; 0: not freed
  std::string holder;      // the first node that cannot be bound for another number of rows; empty: none
};

// Finds the sizes for which the outputs can be computed, and declares them as the graph's input shapes. A number of
// rows that only Reshapes fix is freed if a test with random inputs shows that rows are independent.
ModelShapes fix_shapes(SourceGraph& graph, const std::vector<int>& outputs);
// fix_shapes() that can be repeated for other outputs: each call starts from the shapes that the file declares.
class ShapeFixing {
 public:
  explicit ShapeFixing(SourceGraph& graph);
  const ModelShapes& fix(const std::vector<int>& outputs);
  const ModelShapes& found() const { return found_; }
  bool looked() const { return looked_; }  // false: an operator of the outputs is unknown, nothing was found out

 private:
  void free(const std::vector<int>& outputs);
  SourceGraph& graph_;
  std::vector<std::vector<Dim>> declared_;  // the file's shape of each input
  ModelShapes found_;
  bool looked_ = false;
};

// Ties parameters that the exporter repeated for every row of a batch (graph/folded_rows.h), so that the copies train
// as one. Does nothing if --tie_weights is none or file. Call it after fix_shapes().
void tie_rows(const ModelSpec& model, SourceGraph& graph, const std::vector<int>& outputs, const Log& log);

// Logs notes: "this file takes batches of 8".
void log_fixed_shapes(const ModelShapes& found, const Log& log);

// Sets the batch sizes of training and evaluation for a graph with fixed_rows(graph). If --batch_size is not given, it
// becomes that number. E_BATCH_SIZE (usage) if a larger one is given. rows_per_sample: rows of the inputs.
void fit_batch_size(RunSpec& spec, const SourceGraph& graph, int64_t rows_per_sample, const Log& log);
// Sets only the batch size of evaluation and predictions.
void fit_evaluation_rows(RunSpec& spec, const SourceGraph& graph, int64_t rows_per_sample);

// Whether padding a short batch to the graph's fixed rows would change losses or gradients: batch statistics, and
// losses that the model computes itself, include the padding.
bool padding_counts(const SourceGraph& graph, const Losses& losses, bool batch_statistics);

}  // namespace amp
