// Parameters that an exporter repeated for every row of a batch. torch.onnx with dynamo=True folds
// `query.expand(8, -1)` into a tensor of 8 equal rows. If all 8 were trained, each would become a different weight.
// find_folded_rows() finds them, tie_folded_rows() makes each a repeated copy of one row, which is trained. The
// exported file has all rows, as before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/bind.h"

namespace amp {

struct FoldedRows {
  int value = -1;
  int axis = 0;         // along which the parameter is repeated
  int64_t extent = 1;   // of one copy along that axis
  int64_t repeats = 1;  // the graph's rows
};

// Parameters that consist of fixed_rows() equal slices along an axis which follows the batch. Evidence that it does:
// - Bound for another batch size, a node that reads the parameter accepts that many slices and refuses the file's.
// - Where constants prevent that binding, a node combines the parameter (or a value computed from it without the batch)
//   with the batch, row by row. The slice must then hold different elements, as all slices of fresh zeros are equal.
std::vector<FoldedRows> find_folded_rows(const SourceGraph&, const std::vector<int>& outputs, const Evaluator&);

// Adds one row as a parameter for each, unless the graph has an equal one, and ties the file's tensor to it. Returns
// the names of the file's tensors.
std::vector<std::string> tie_folded_rows(SourceGraph&, const std::vector<FoldedRows>&);

// The first `extent` slices along the axis, one copy after the other.
HostTensor repeated(const HostTensor&, int axis, int64_t extent, int64_t repeats);
// One slice along each axis but `except` whose slices are all equal: a token type's embedding is the same at every
// place of a sequence. The tensor itself where all its elements are equal.
HostTensor without_copies(const HostTensor&, int except);
// Whether the tensor holds such copies, apart by no more than the tolerance times its largest element.
bool holds_copies(const HostTensor&, int axis, int64_t repeats, double tolerance = 0);

}  // namespace amp
