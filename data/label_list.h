// Reads class names from files and from metadata of models.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace amp {

// Parses a JSON or Python literal: a list or tuple of names, {id: name}, or {name: id} with ids 0 to n-1. Returns the
// names in the order of their ids; empty for other texts.
std::vector<std::string> parse_label_literal(std::string_view text);

// Parses a literal as parse_label_literal does. Reads any other text as one name per line or, if it is a single line,
// as names between commas. Returns an empty vector if a name is empty.
std::vector<std::string> parse_label_list(std::string_view text);

}  // namespace amp
