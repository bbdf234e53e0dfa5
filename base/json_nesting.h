// Parsing of JSON files with limits on nesting and keys. Without the limits, a file could exhaust the stack (copying,
// dump() and recursive readers of nlohmann::json) or need quadratic time (nlohmann::ordered_json).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>

namespace amp {

constexpr int kMostJsonLevels = 100;
// Largest number of keys of an object that nlohmann::ordered_json reads. It compares a new key with all earlier keys.
constexpr int64_t kMostJsonKeys = 10'000;

// Returns the nesting depth of arrays and objects. The text may be invalid JSON; comments are not recognized.
int json_levels(std::string_view text);

// Returns why a text must not be parsed, for example "nests deeper than 100"; empty if it may be parsed.
// ordered: whether nlohmann::ordered_json will parse it, which allows at most kMostJsonKeys keys in an object.
std::string json_excess(std::string_view text, bool ordered);

// Parses the text of a file. Returns a discarded value if it is invalid or beyond the limits of json_excess().
template <class Json = nlohmann::json>
Json parse_json(std::string_view text) {
  if (!json_excess(text, std::is_same_v<Json, nlohmann::ordered_json>).empty()) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

}  // namespace amp
