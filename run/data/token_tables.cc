// token_table_rows() follows the ids from the input to lookups, and the table of each lookup back to the tensor that
// the file stores. check_vocabulary() compares the tables with the tokenizer, before any data are read.
#include "run/data/token_tables.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "data/text_dataset.h"
#include "data/tokenizer.h"
#include "importer/surgery/edit.h"
#include "run/data/data.h"
#include "run/spec/spec.h"

namespace amp {

namespace {

// Returns the size of axis 0 after a Reshape to `shape` of a tensor with `elements` elements. Returns 0 if that size is
// not determined: the Reshape copies dims or infers several.
int64_t reshaped_rows(const std::vector<int64_t>& shape, int64_t elements) {
  if (shape.empty()) return 0;
  if (shape[0] > 0) return shape[0];
  int64_t others = 1;
  for (size_t i = 1; i < shape.size(); ++i) others *= shape[i];
  return shape[0] == -1 && others > 0 && elements % others == 0 ? elements / others : 0;
}

// Returns the size of an axis (0 or 1) of a table; 0: unknown.
int64_t table_size(const SourceGraph& g, int v, size_t axis) {
  while (v >= 0) {
    const SourceValue& x = g.value(v);
    if (x.data) return axis < x.data.dims().size() ? x.data.dims()[axis] : 0;
    if (x.producer < 0) return 0;
    const SourceNode& n = g.nodes[static_cast<size_t>(x.producer)];
    if (!n.domain.empty() || n.inputs.empty() || n.inputs[0] < 0) return 0;
    if (n.op == "Reshape") {
      const bool stored = axis == 0 && n.inputs.size() > 1 && n.inputs[1] >= 0 && g.value(n.inputs[1]).data;
      const HostTensor& from = g.value(n.inputs[0]).data;
      return stored ? reshaped_rows(g.value(n.inputs[1]).data.to_ints(), from ? from.numel() : 0) : 0;
    }
    if (n.op == "Transpose") {
      if (n.attrs.ints("perm", {1, 0}) != std::vector<int64_t>{1, 0}) return 0;
      axis = 1 - axis;
    } else if (!one_of(n.op, {"Identity", "Cast", "DequantizeLinear", "QuantizeLinear"})) {
      return 0;
    }
    v = n.inputs[0];
  }
  return 0;
}

// Returns the number of rows of the table in which the node looks up the ids of this input; 0 if the node is not a
// lookup.
int64_t looked_up(const SourceGraph& g, const SourceNode& n, const std::set<int>& ids) {
  const auto reads = [&](size_t i) { return i < n.inputs.size() && ids.count(n.inputs[i]) > 0; };
  if (n.domain == "com.microsoft") {
    if (n.op == "GatherBlockQuantized" && reads(1) && n.attrs.i("gather_axis", 0) == 0)
      return table_size(g, n.inputs[0], 0);
    if (n.op != "EmbedLayerNormalization") return 0;
    if (reads(0)) return table_size(g, n.inputs.at(2), 0);
    return reads(1) && n.inputs.size() > 4 ? table_size(g, n.inputs[4], 0) : 0;
  }
  if (n.op != "Gather" || !reads(1) || n.attrs.i("axis", 0) != 0) return 0;
  const SourceValue& t = g.value(n.inputs[0]);
  if (t.data && t.data.rank() != 2) return 0;
  return table_size(g, n.inputs[0], 0);
}

// True for inputs with the token ids of an encoder, a decoder or a causal model.
bool holds_ids(const std::string& input) {
  constexpr std::string_view kDecoder = "decoder_";
  return text_role(input.starts_with(kDecoder) ? input.substr(kDecoder.size()) : input) == TextRole::ids;
}

}  // namespace

int64_t token_table_rows(const SourceGraph& g, int input) {
  int64_t rows = 0;
  std::set<int> ids = {input};
  for (const SourceNode& n : g.nodes) {  // topological order: a view precedes its readers
    const bool view = !n.inputs.empty() && ids.count(n.inputs[0]) && is_plain_view(n, false);
    if (view) ids.insert(n.outputs.begin(), n.outputs.end());
    if (const int64_t mine = looked_up(g, n, ids); mine > 0) rows = rows ? std::min(rows, mine) : mine;
  }
  return rows;
}

void check_vocabulary(const RunSpec& spec, const SourceGraph& graph, const std::vector<int>& inputs, const Log& log) {
  const std::string path = tokenizer_path(spec);
  const int64_t size = path.empty() ? 0 : open_tokenizer(path, tokenizer_options(spec.data.text))->size();
  for (const int v : inputs) {
    const std::string& name = graph.value(v).name;
    const int64_t rows = holds_ids(name) && size > 0 ? token_table_rows(graph, v) : 0;
    if (rows == 0 || rows == size) continue;
    const std::string fact = cat("the vocabulary '", path, "' has ", size, " tokens, the table that '", printable(name),
                                 "' looks up has ", rows, " rows");
    if (size > rows)
      fail(Exit::data, "E_VOCAB_SIZE", fact,
           "give the vocabulary of the model's own tokenizer with `vocab`; for tokens that were added to it, enlarge "
           "the model's table before the export (resize_token_embeddings)");
    const bool padded = rows % 64 == 0 && rows - size < 128;
    if (!padded) log.warning(cat("W_VOCAB_SIZE: ", fact, ": is it the model's own?"));
  }
}

}  // namespace amp
