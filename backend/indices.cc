#include "backend/indices.h"

#include <map>
#include <string>

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

}  // namespace amp
