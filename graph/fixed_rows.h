// Batch sizes (numbers of rows) and lengths that a file fixes in its graph (a Reshape to [8, 2, 4], an LSTM state of 8
// rows). find_fixed_shapes() finds them by binding the graph for several sizes. A graph with a fixed number of rows is
// always bound for that number: missing rows are filled with copies of the batch's rows, and outputs are sliced back.
// Losses, metrics and gradients are therefore those of the batch, unless the model mixes rows (batch statistics).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/bind.h"

namespace amp {

// Returns the number of rows that the graph requires; 0 if it accepts any number.
int64_t fixed_rows(const SourceGraph&);
// Declares `rows` as the first dimension of each input whose first dimension is dynamic or equals `rows`, and marks it
// as the row dimension. Does nothing if `rows` is 0.
void set_fixed_rows(SourceGraph&, int64_t rows);
// Declares `length` as the size of the inputs' dynamic dimensions other than the first.
void set_fixed_length(SourceGraph&, int64_t length);

struct FixedShapes {
  int64_t rows = 0;    // 0: any number
  int64_t length = 0;  // size of dynamic dimensions other than the first; 0: several are possible
};
// Returns the only sizes for which the outputs can be bound and have as many rows as the inputs (or a multiple).
// Returns {} if all sizes are possible or none was found. Candidates are the declared dimensions, the constants in
// shapes, and their divisors.
FixedShapes find_fixed_shapes(const SourceGraph&, const std::vector<int>& outputs, const Evaluator&);

// Attribute of a Reshape whose constant shape starts with the export's number of rows. That extent is replaced by the
// batch's number of rows.
inline constexpr const char* kFreeRows = "free_rows";
// Sets (`free`) or removes kFreeRows on each Reshape whose first extent is constant and whose input depends on a graph
// input. Returns the number of these Reshapes. The caller must verify that the outputs of a row do not change.
int set_free_rows(SourceGraph&, const std::vector<int>& outputs, bool free);

// Pads a batch to the graph's fixed rows; used by bind().
class RowPadding {
 public:
  // Fails with E_BATCH_SIZE (usage) if the batch has more rows than the graph.
  RowPadding(const SourceGraph& g, const BindOptions& o);
  const BindOptions& options() const { return padded_; }  // with the padded input shapes
  ValueId pad(Builder& b, int source_value, ValueId input) const;
  void cut(Builder& b, const std::vector<int>& outputs, Bound& bound) const;

 private:
  const SourceGraph& g_;
  BindOptions padded_;
  int64_t fixed_ = 0, rows_ = 0;  // number of rows that the graph requires, and of the batch
};

// Returns true if the input has no row dimension and its value is known, so that no batch feeds it.
bool is_fixed_whole(const SourceValue& x);
// Returns the elements of `inputs` that a batch feeds, without those of is_fixed_whole().
std::vector<int> fed_inputs(const SourceGraph&, const std::vector<int>& inputs);

}  // namespace amp
