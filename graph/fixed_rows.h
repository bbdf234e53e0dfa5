// Batch sizes and lengths that a file bakes into its graph (a Reshape to [8, 2, 4], an LSTM's state of 8 rows).
// find_fixed_shapes() finds them by binding the graph for several sizes. A graph with a fixed number of rows is bound
// for that number whatever a batch holds: missing rows are copies of the batch's own, and outputs are cut back to the
// batch's rows. So losses, metrics and gradients are those of the batch alone, unless rows of the model see each other
// (batch statistics).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/bind.h"

namespace amp {

// Rows that the graph takes; 0: any number.
int64_t fixed_rows(const SourceGraph&);
// Marks the inputs that hold a row a sample: those whose first dimension is open, or declared as `rows`; 0: none.
void set_fixed_rows(SourceGraph&, int64_t rows);
// Declares `length` for the dimensions behind the first that the file leaves open.
void set_fixed_length(SourceGraph&, int64_t length);

struct FixedShapes {
  int64_t rows = 0;    // 0: any number
  int64_t length = 0;  // of the dimensions behind the first that the file leaves open; 0: many
};
// The only sizes for which the outputs can be bound, with as many rows as the inputs have (or a multiple of them).
// {}: no size is special, or none was found. Candidates are the declared dimensions, the constants that shapes are made
// of, and their divisors.
FixedShapes find_fixed_shapes(const SourceGraph&, const std::vector<int>& outputs, const Evaluator&);

// Attribute of a Reshape: the first extent of its constant shape stands for the rows that the file was exported with,
// and follows the rows of a batch.
inline constexpr const char* kFreeRows = "free_rows";
// Sets or takes away that attribute where a Reshape of what depends on an input writes its first extent as a number.
// How many there are. Whether the outputs of a row are the same then is for the caller to find out.
int set_free_rows(SourceGraph&, const std::vector<int>& outputs, bool free);

// A batch in a graph of fixed rows, for bind().
class RowPadding {
 public:
  // E_BATCH_SIZE (usage) for a batch of more rows than the graph takes.
  RowPadding(const SourceGraph& g, const BindOptions& o);
  const BindOptions& options() const { return padded_; }  // as the nodes see it
  ValueId pad(Builder& b, int source_value, ValueId input) const;
  void cut(Builder& b, const std::vector<int>& outputs, Bound& bound) const;

 private:
  const SourceGraph& g_;
  BindOptions padded_;
  int64_t fixed_ = 0, rows_ = 0;  // of the graph, of the batch
};

// Whether the value is known of an input that has no dimension for rows: nothing feeds it, whatever a batch holds.
bool is_fixed_whole(const SourceValue& x);
// Those of `inputs` that a batch feeds: without the ones above.
std::vector<int> fed_inputs(const SourceGraph&, const std::vector<int>& inputs);

}  // namespace amp
