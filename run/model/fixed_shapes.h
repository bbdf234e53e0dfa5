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

// The sizes that a model file fixes, and those that fix_shapes() freed.
struct ModelShapes : FixedShapes {
  int64_t freed_rows = 0;  // the file's batch size if it was freed; 0: it was not freed
  std::string holder;      // the first node that cannot be bound for another batch size; empty: there is none
};

// Finds the batch size and length that the graph requires to compute the outputs, and declares them as the graph's
// input shapes. A batch size that only Reshapes fix is freed if a test with random inputs shows that rows are
// independent.
ModelShapes fix_shapes(SourceGraph& graph, const std::vector<int>& outputs);
// Does the same as fix_shapes(), repeatedly for different outputs. Each call starts from the shapes that the file
// declares.
class ShapeFixing {
 public:
  explicit ShapeFixing(SourceGraph& graph);
  const ModelShapes& fix(const std::vector<int>& outputs);
  const ModelShapes& found() const { return found_; }
  // False: the sizes are not known, because an operator before the outputs is unknown.
  bool looked() const { return looked_; }

 private:
  void free(const std::vector<int>& outputs);
  SourceGraph& graph_;
  std::vector<std::vector<Dim>> declared_;  // the file's shape of each input
  ModelShapes found_;
  bool looked_ = false;
};

// Ties parameters that the exporter repeated for every row of a batch (graph/folded_rows.h), so that the copies train
// as one. Does nothing if `tie_weights` is none or file. Call it after fix_shapes().
void tie_rows(const ModelSpec& model, SourceGraph& graph, const std::vector<int>& outputs, const Log& log);

// Logs the fixed sizes as notes: "this file takes batches of 8".
void log_fixed_shapes(const ModelShapes& found, const Log& log);

// Sets the batch sizes of training and evaluation to the one that the graph requires (fixed_rows(graph)). Throws
// E_BATCH_SIZE (Exit::usage) if the user gave a larger `batch_size`. rows_per_sample: number of input rows per sample.
void fit_batch_size(RunSpec& spec, const SourceGraph& graph, int64_t rows_per_sample, const Log& log);
// Sets only the batch size of evaluation and predictions to the one that the graph requires.
void fit_evaluation_rows(RunSpec& spec, const SourceGraph& graph, int64_t rows_per_sample);

// Returns whether padding a short batch to the graph's fixed batch size would change losses or gradients. Batch
// statistics, and losses that the model computes itself, include the padding.
bool padding_counts(const SourceGraph& graph, const Losses& losses, bool batch_statistics);

}  // namespace amp
