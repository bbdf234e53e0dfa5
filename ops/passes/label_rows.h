// Row selection: computes only the rows (tokens) that a loss reads. Rows whose label is ignored, such as the prompts
// of a conversation, add nothing to a loss. So after the last attention, which mixes rows, only the other rows are
// gathered and computed. This saves work in the norms and products after the attention, and in the head, whose logits
// are the largest tensor of a language model. Losses and gradients are the same up to the order of sums. Slice
// hoisting (slice_hoisting.h) does the same for rows that are fixed in the graph; here the rows differ by batch.
// Modeled on "sparse prediction" of masked language models (ModernBERT, Warner et al. 2024, arXiv:2412.13663).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ops/passes/padding_flow.h"

namespace amp {

// Integer labels, one per row, and the label value of rows that have no label.
struct RowLabels {
  ValueId value;
  int64_t ignored = -100;
};

// The rows of a graph's logits, and the labels that decide which rows are needed: the rows that at least one of the
// labels does not ignore.
struct RowSelection {
  TokenPlaces places;             // the rows are numbered over (batch, length), row-major
  std::vector<RowLabels> labels;  // each depends only on the graph's inputs and has places.count() elements
  // The product with the most elements per row (the head of a language model): that number of elements, and its weight.
  int64_t widest = 0;
  ValueId weight;
};

// Name of the additional int64 input (rows) of the new graph: the indices of the rows to compute, each once. It must
// contain all rows that are needed.
inline constexpr const char* kRowInput = "labeled.rows";

// Returns the selection for which the matrix products of the graph have the fewest operations per row. Returns
// nullopt if no product becomes smaller. ignored: names of label inputs, each with the label of rows that have
// none. The graph must be one before autodiff, with fused operators.
std::optional<RowSelection> find_label_rows(const Graph& g, const std::map<std::string, int64_t>& ignored,
                                            const Evaluator& evaluator);
// Returns a graph that computes `rows` rows where the selection permits it, with the additional input kRowInput.
// Dropout uses the random bits that the same rows have in g. Rows are computed in chunks of `chunk` rows, by one
// subgraph after the other, whose losses are added. order_chunks() then orders the nodes so that the memory of one
// chunk suffices.
Graph select_rows(const Graph& g, const RowSelection& selection, int64_t rows, int64_t chunk,
                  const Evaluator& evaluator);

// Returns the training graph with its nodes in another order: forward and backward of one chunk of select_rows(), then
// of the next. The seeds of the backward pass are inputs, so backward can follow immediately, and the logits of a chunk
// use the memory of the previous chunk's logits. The order of sums is fixed. A graph without chunks is unchanged.
Graph order_chunks(const Graph& g);

// Returns the labels of a graph: the labels of each CrossEntropy, and integers that are compared with the ignored
// label of an input. Labels depend on inputs only.
std::vector<RowLabels> row_labels(const Graph& g, const std::map<std::string, int64_t>& ignored);

// Returns a graph that computes only the labels: its outputs "labels.0", ... are RowSelection::labels.
Graph label_graph(const Graph& g, const RowSelection& selection);

}  // namespace amp
