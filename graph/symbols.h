// Sizes of the symbolic dimensions of a model's inputs. Exporters name a dimension by a symbol ("sequence_length") or
// by an expression of symbols ("past_sequence_length + sequence_length").
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "graph/source.h"

namespace amp {

class SymbolSizes {
 public:
  // Sets the size of a symbol that has no size yet. Ignores expressions.
  void set(const std::string& symbol, int64_t size);
  // Returns the size of a symbol, or of a sum, difference or product of symbols and numbers. Products are evaluated
  // first, then sums from left to right. Returns nullopt if a part is unknown or the result is negative.
  std::optional<int64_t> of(const std::string& expression) const;

 private:
  std::map<std::string, int64_t> sizes_;
};

// Returns the sizes for a dry run: `rows` for the first dimension of each input, `length` for the second dimension of
// integer inputs of rank 2 (token ids, masks), 0 for the positions of empty caches (importer/surgery/pasts.h).
SymbolSizes probed_symbols(const SourceGraph& graph, int64_t rows, int64_t length);

// Returns the batch's number of rows: that of the input whose first dimension has the symbol of `rows`; without one,
// that of the first input; 1 if no input has rows. input_dims: shapes of the inputs that are fed, by name.
int64_t fed_rows(const SourceGraph& graph, const std::map<std::string, Dims>& input_dims, const Dim& rows);

}  // namespace amp
