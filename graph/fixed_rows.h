// Batch sizes (numbers of rows) and lengths that a file fixes in its graph, as by a Reshape to [8, 2, 4]. They are
// found by find_fixed_shapes(), which binds the graph for several sizes. A graph with a fixed number of rows is always
// bound for it: missing rows are copies of the batch's rows, and outputs are cut to the batch's rows. So losses,
// metrics and gradients are those of the batch, unless the model mixes rows (batch statistics).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/bind.h"

namespace amp {

// Returns the number of rows that the graph requires in each batch; 0 if it accepts any number.
int64_t fixed_rows(const SourceGraph&);
// Declares `rows` as the first dimension of each input whose first dimension is dynamic or equals `rows`, and marks it
// as the row dimension. Does nothing if `rows` is 0.
void set_fixed_rows(SourceGraph&, int64_t rows);
// Declares `length` as the size of all dynamic dimensions of the inputs except the first.
void set_fixed_length(SourceGraph&, int64_t length);

struct FixedShapes {
  int64_t rows = 0;    // 0: any number of rows is possible
  int64_t length = 0;  // size of all dynamic dimensions except the first; 0: several sizes are possible
};
// Finds the only sizes for which the outputs can be bound and have as many rows as the inputs (or a multiple).
// Returns {} if all sizes are possible or none was found. Candidates are the declared dimensions, the constants in
// shapes, and their divisors.
FixedShapes find_fixed_shapes(const SourceGraph&, const std::vector<int>& outputs, const Evaluator&);

// Attribute of a Reshape whose constant shape starts with the number of rows at export. bind() replaces that number
// by the batch's number of rows.
inline constexpr const char* kFreeRows = "free_rows";
// Sets kFreeRows on each Reshape with a constant first extent whose input depends on a graph input; removes it if
// `free` is false. Returns the number of these Reshapes. The caller must verify that each row's outputs stay the same.
int set_free_rows(SourceGraph&, const std::vector<int>& outputs, bool free);

// Pads a batch to the number of rows that the graph requires; used by bind().
class RowPadding {
 public:
  // Fails with E_BATCH_SIZE (usage) if the batch has more rows than the graph.
  RowPadding(const SourceGraph& g, const BindOptions& o);
  const BindOptions& options() const { return padded_; }  // the options with the padded input shapes
  ValueId pad(Builder& b, int source_value, ValueId input) const;
  void cut(Builder& b, const std::vector<int>& outputs, Bound& bound) const;

 private:
  const SourceGraph& g_;
  BindOptions padded_;
  int64_t fixed_ = 0, rows_ = 0;  // number of rows that the graph requires; number of rows of the batch
};

// Returns true if the input has no row dimension and its value is known (SourceValue::data), so that no batch feeds it.
bool is_fixed_whole(const SourceValue& x);
// Returns the indices in `inputs` for which is_fixed_whole() is false: a batch feeds these inputs.
std::vector<int> fed_inputs(const SourceGraph&, const std::vector<int>& inputs);

}  // namespace amp
