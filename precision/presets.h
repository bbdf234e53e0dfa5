// The op-lists that are embedded in the program (precision/presets/*.json) and the operator names that op-lists may use
// (precision/operators.txt).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/embedded_file.h"

namespace amp {

std::span<const EmbeddedFile> embedded_op_lists();  // generated: cmake/embed.cmake

std::vector<std::string> preset_names();              // "O0", "O1", ..., sorted by bytes
std::string_view preset_text(std::string_view name);  // empty if there is no such preset
std::span<const std::string> known_operators();       // sorted by bytes

}  // namespace amp
