// Parsing of JSON files with limits: copying, dump() and recursive readers of nlohmann::json use stack for each level,
// and nlohmann::ordered_json compares a key with all keys of its object.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>

namespace amp {

constexpr int kMostJsonLevels = 100;
// Limit of the keys of one object where nlohmann::ordered_json is used, which compares a key with all before it.
constexpr int64_t kMostJsonKeys = 10'000;

// Maximum nesting of arrays and objects. The text need not be valid JSON; comments are not recognized.
int json_levels(std::string_view text);

// Returns why a text must not be parsed, as "nests deeper than 100"; empty if it may be. ordered: as
// nlohmann::ordered_json, with at most kMostJsonKeys keys in an object.
std::string json_excess(std::string_view text, bool ordered);

// Parses the text of a file. Returns a discarded value if it is invalid or beyond the limits of json_excess().
template <class Json = nlohmann::json>
Json parse_json(std::string_view text) {
  if (!json_excess(text, std::is_same_v<Json, nlohmann::ordered_json>).empty()) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

}  // namespace amp
