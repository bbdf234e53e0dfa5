// Parameters that an exporter repeated for every row of a batch. torch.onnx with dynamo=True folds `query.expand(8,
// -1)` into a tensor of 8 equal rows, which training would make 8 different weights. find_folded_rows() finds such
// tensors. tie_folded_rows() makes each a repeated copy of one trained row. The exported file keeps all rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/bind.h"

namespace amp {

// A parameter that an exporter has repeated. value: its index in SourceGraph::values.
struct FoldedRows {
  int value = -1;
  int axis = 0;         // the axis of repetition
  int64_t extent = 1;   // length of one copy along that axis
  int64_t repeats = 1;  // number of copies, which is the number of rows that the graph requires
};

// Returns the parameters that consist of fixed_rows() equal slices along the batch's axis. Evidence for this:
// - Bound for another batch size, a node that reads the parameter accepts that many slices and rejects the file's.
// - If constants prevent that binding, a node combines the parameter (or a value computed from it without the batch)
//   row by row with the batch. A slice must have different elements, because slices of initial zeros are equal.
std::vector<FoldedRows> find_folded_rows(const SourceGraph&, const std::vector<int>& outputs, const Evaluator&);

// Ties each tensor in the list to a parameter that holds one of its rows. Adds that parameter unless the graph
// already has an equal one. Returns the names of the tensors in the file.
std::vector<std::string> tie_folded_rows(SourceGraph&, const std::vector<FoldedRows>&);

// Returns the first `extent` slices along the axis, repeated `repeats` times along it.
HostTensor repeated(const HostTensor&, int axis, int64_t extent, int64_t repeats);
// Reduces each axis whose slices are all equal to its first slice, except the axis `except`. (For example, a token
// type's embedding is the same at every position.) A tensor whose elements are all equal is returned unchanged.
HostTensor without_copies(const HostTensor&, int except);
// True if the tensor consists of `repeats` copies along the axis, up to the tolerance times its largest element.
bool holds_copies(const HostTensor&, int axis, int64_t repeats, double tolerance = 0);

}  // namespace amp
