// Parsing of JSON files with a limit of nesting: copying, dump() and recursive readers of nlohmann::json use stack for
// each level.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

namespace amp {

constexpr int kMostJsonLevels = 100;
// Limit of the keys of one object where nlohmann::ordered_json is used, which compares a key with all before it.
constexpr int64_t kMostJsonKeys = 10'000;

// Maximum nesting of arrays and objects. The text need not be valid JSON; comments are not recognized.
int json_levels(std::string_view text);

// Parses the text of a file. Returns a discarded value if it is invalid or nests deeper than kMostJsonLevels.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text) {
  if (json_levels(text) > kMostJsonLevels) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

}  // namespace amp
