// Class names as files list them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace amp {

// Names by id of a JSON or Python literal: a list or tuple of names, {id: name}, or {name: id} with ids 0 to n-1. Empty
// for anything else.
std::vector<std::string> parse_label_literal(std::string_view text);

// Of a file, or of a text that some exporter wrote: such a literal, else a name a line, else names between commas.
std::vector<std::string> parse_label_list(std::string_view text);

}  // namespace amp
