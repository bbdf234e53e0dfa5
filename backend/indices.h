// Operators that look up rows by index. A CPU kernel rejects an index out of bounds while it runs. A GPU kernel cannot.
// For a GPU, the host checks the inputs of a Program before the upload, and a separate kernel checks computed indices
// and sets a flag (Device::check_indices).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace amp {

// The valid range of an index: least <= i < end, and also `ignored` if `ignores` is set.
struct IndexBound {
  int64_t least = 0, end = 0;
  bool ignores = false;
  int64_t ignored = 0;
  enum Kind : uint8_t { table, label, axis } kind = table;  // selects the error that refuse_index() throws
  HD bool holds(int64_t i) const { return (i >= least && i < end) || (ignores && i == ignored); }
  bool operator==(const IndexBound&) const = default;
};

// Throws the error that CPU kernels throw: E_DATA_TOKEN_RANGE, E_DATA_LABEL or E_DATA_INDEX, by bound.kind. where: a
// part of the message, such as "of input 'ids'".
[[noreturn]] void refuse_index(const IndexBound& bound, int64_t index, const std::string& where);

struct Lookup {
  size_t indices = 1;  // the input that contains the indices
  IndexBound (*bound)(const Graph& g, const Node& n) = nullptr;
  bool moves = false;     // the output's elements are copies of input 0's
  bool scatters = false;  // the output is zero except in the rows that the indices name
};

// Returns the range [-n, n), in which negative indices count from the end.
inline IndexBound index_into(int64_t n, IndexBound::Kind kind = IndexBound::table) { return {-n, n, false, 0, kind}; }

std::optional<Lookup> find_lookup(std::string_view op);

struct RegisterLookup {
  RegisterLookup(std::string_view op, Lookup lookup);
};

}  // namespace amp
