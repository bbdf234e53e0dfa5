// Parameters that an exporter repeated for every row of a batch. torch.onnx with dynamo=True folds `query.expand(8,
// -1)` into a tensor of 8 equal rows. Training all 8 rows would make each a different weight. find_folded_rows() finds
// such tensors; tie_folded_rows() makes each a repeated copy of one trained row. The exported file keeps all rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/bind.h"

namespace amp {

// Index in SourceGraph::values.
struct FoldedRows {
  int value = -1;
  int axis = 0;         // the axis of repetition
  int64_t extent = 1;   // length of one copy along that axis
  int64_t repeats = 1;  // number of copies: the graph's rows
};

// Parameters that consist of fixed_rows() equal slices along an axis that follows the batch. Evidence for this:
// - Bound for another batch size, a node that reads the parameter accepts that many slices and rejects the file's.
// - If constants prevent that binding, a node combines the parameter (or a value computed from it without the batch)
//   row by row with the batch. The slice must then have different elements, because slices of initial zeros are equal.
std::vector<FoldedRows> find_folded_rows(const SourceGraph&, const std::vector<int>& outputs, const Evaluator&);

// Ties each tensor found to a parameter that holds one row of it. Adds that parameter unless the graph has an equal
// one. Returns the names of the tensors in the file.
std::vector<std::string> tie_folded_rows(SourceGraph&, const std::vector<FoldedRows>&);

// Returns the first `extent` slices along the axis, repeated `repeats` times.
HostTensor repeated(const HostTensor&, int axis, int64_t extent, int64_t repeats);
// Returns the tensor with only the first slice of each axis whose slices are all equal (a token type's embedding is the
// same at every position). The axis `except` is kept. A tensor whose elements are all equal is returned unchanged.
HostTensor without_copies(const HostTensor&, int except);
// True if the tensor consists of `repeats` copies along the axis, up to the tolerance times its largest element.
bool holds_copies(const HostTensor&, int axis, int64_t repeats, double tolerance = 0);

}  // namespace amp
