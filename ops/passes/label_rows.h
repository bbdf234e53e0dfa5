// Row selection: computes only the rows (tokens) that a loss reads. Rows whose label is ignored, such as the prompts of
// a conversation, add nothing to a loss. So after the last operator that mixes rows (attention), only the other rows
// are gathered and computed. This concerns the norms and products after it, and the head, whose logits are the largest
// tensor of a language model. Losses and gradients are the same up to the order of sums. The pass is the counterpart of
// slice hoisting (ops/passes/slice_hoisting.h) for rows that differ from batch to batch. It is modeled on "sparse
// prediction" of masked language models (ModernBERT, Warner et al. 2024, arXiv:2412.13663).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ops/passes/padding_flow.h"

namespace amp {

// Integer labels, one per row, and the label of rows without one.
struct RowLabels {
  ValueId value;
  int64_t ignored = -100;
};

// The rows of a graph's logits, and the labels that decide which of them are needed: those that at least one label does
// not ignore.
struct RowSelection {
  TokenPlaces places;             // the rows are (batch, length) in row-major order
  std::vector<RowLabels> labels;  // functions of the graph's inputs, with places.count() elements each
  // The product with the most elements per row, which is the head of a language model: their number, and its weight.
  int64_t widest = 0;
  ValueId weight;
};

// Name of the int64 input (rows) of the new graph: the indices of the rows, each once. It must contain all rows that
// are needed.
inline constexpr const char* kRowInput = "labeled.rows";

// Returns the selection that makes the matrix products of the graph smallest, in operations per row. Nothing if no
// product becomes smaller. ignored: names of label inputs, with the label that marks rows without one.
// The graph is one before autodiff, with fused operators.
std::optional<RowSelection> find_label_rows(const Graph& g, const std::map<std::string, int64_t>& ignored,
                                            const Evaluator& evaluator);
// Returns a graph that computes `rows` rows where the selection permits it, with the additional input kRowInput.
// Dropout uses the random bits of the same rows in g. The rows are computed in chunks of `chunk` rows, one graph after
// the other, whose losses are added. order_chunks() makes the memory of one chunk suffice.
Graph select_rows(const Graph& g, const RowSelection& selection, int64_t rows, int64_t chunk,
                  const Evaluator& evaluator);

// Returns the training graph with its nodes in another order: forward and backward of one chunk of select_rows(), then
// of the next. The seeds of the backward pass are inputs, so backward can follow immediately, and the logits of a chunk
// use the memory of the previous chunk's. The order of sums is fixed. Unchanged if there are no chunks.
Graph order_chunks(const Graph& g);

// Returns the labels of a graph: those of CrossEntropy, and integers that are compared with the ignored label of an
// input. They depend on inputs only.
std::vector<RowLabels> row_labels(const Graph& g, const std::map<std::string, int64_t>& ignored);

// Returns the graph of the labels alone: its outputs "labels.0", ... are RowSelection::labels.
Graph label_graph(const Graph& g, const RowSelection& selection);

}  // namespace amp
