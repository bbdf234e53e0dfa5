#include "backend/indices.h"

#include <map>
#include <string>

#include "base/error.h"

namespace amp {

static std::map<std::string, Lookup, std::less<>>& lookups() {
  static std::map<std::string, Lookup, std::less<>> t;
  return t;
}

RegisterLookup::RegisterLookup(std::string_view op, Lookup lookup) { lookups().emplace(op, lookup); }

std::optional<Lookup> find_lookup(std::string_view op) {
  const auto it = lookups().find(op);
  if (it == lookups().end()) return {};
  return it->second;
}

void refuse_index(const IndexBound& b, int64_t index, const std::string& where) {
  if (b.kind == IndexBound::label)
    fail(Exit::data, "E_DATA_LABEL", cat("label ", index, ' ', where, " is outside 0..", b.end - 1));
  if (b.kind == IndexBound::axis)
    fail(Exit::data, "E_DATA_INDEX", cat("index ", index, ' ', where, " is outside an axis of ", b.end));
  fail(Exit::data, "E_DATA_TOKEN_RANGE", cat("index ", index, ' ', where, " is outside a table of ", b.end, " rows"),
       "does the tokenizer (vocabulary) belong to this model?");
}

}  // namespace amp
