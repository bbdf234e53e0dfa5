// Operators that look up rows by index. A CPU kernel refuses an index outside its table while it runs; a GPU kernel cannot, so what a
// Program is fed is checked before it leaves the host.
#pragma once

#include <optional>
#include <string_view>

#include "graph/graph.h"

namespace amp {

struct Lookup {
  size_t indices = 1;                                            // the input that holds them, in [-extent, extent)
  int64_t (*extent)(const Graph& g, const Node& n) = nullptr;    // of the table
};

std::optional<Lookup> find_lookup(std::string_view op);

struct RegisterLookup {
  RegisterLookup(std::string_view op, Lookup lookup);
};

}  // namespace amp
