// Parameters that an exporter repeated for every row of a batch. torch.onnx with dynamo=True folds
// `query.expand(8, -1)` into a tensor of 8 equal rows; trained as such, each row would become a weight of its own.
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

// Parameters whose slices along an axis are equal, as many as the graph has rows (fixed_rows), and whose axis follows
// the rows of a batch: bound for another number of rows, a reader takes the parameter with that many slices and does
// not take the file's. Where constants keep readers from being bound for other rows, the parameter, or what is computed
// from it without a batch, must meet the rows of a batch with as many copies. The slice must then hold more than one
// value: fresh zeros or ones are equal by themselves.
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
