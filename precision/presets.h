// The op-lists that come with the program (precision/presets/*.json, embedded at build time) and the operator names
// that op-lists may use (precision/operators.txt).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/embedded_file.h"

namespace amp {

std::span<const EmbeddedFile> embedded_op_lists();  // generated: cmake/embed.cmake

std::vector<std::string> preset_names();              // "O0", "O1", ..., sorted by bytes
std::string_view preset_text(std::string_view name);  // empty when there is none
std::span<const std::string> known_operators();       // sorted by bytes

}  // namespace amp
