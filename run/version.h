// The version of this program.
#pragma once

#include <string>

namespace amp {

std::string program_version();  // one line: "onnx-amp-finetune 0.2.0"

}  // namespace amp
