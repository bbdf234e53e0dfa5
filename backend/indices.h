// Operators that look up rows by index. A CPU kernel refuses an index outside its table while it runs; a GPU kernel
// cannot, so what a Program is fed is checked before it leaves the host, and what it computes by a kernel that raises a
// flag (Device::check_indices).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace amp {

// What an index may be: least <= i < end, or `ignored`.
struct IndexBound {
  int64_t least = 0, end = 0;
  bool ignores = false;
  int64_t ignored = 0;
  enum Kind : uint8_t { table, label, axis } kind = table;  // the CPU's words for a bad one
  HD bool holds(int64_t i) const { return (i >= least && i < end) || (ignores && i == ignored); }
  bool operator==(const IndexBound&) const = default;
};

// Throws what the CPU's kernels do: E_DATA_TOKEN_RANGE, E_DATA_LABEL or E_INDEX. where: "of input 'ids'".
[[noreturn]] void refuse_index(const IndexBound& bound, int64_t index, const std::string& where);

struct Lookup {
  size_t indices = 1;  // the input that holds them
  IndexBound (*bound)(const Graph& g, const Node& n) = nullptr;
  bool moves = false;     // the output's elements are input 0's
  bool scatters = false;  // the output is zero but in these rows
};

// [-n, n): negative ones count from the end
inline IndexBound index_into(int64_t n, IndexBound::Kind kind = IndexBound::table) { return {-n, n, false, 0, kind}; }

std::optional<Lookup> find_lookup(std::string_view op);

struct RegisterLookup {
  RegisterLookup(std::string_view op, Lookup lookup);
};

}  // namespace amp
