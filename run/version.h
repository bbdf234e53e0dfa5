// Which version this is.
#pragma once

#include <string>

namespace amp {

std::string program_version();  // a line: "onnx-amp-finetune 0.1.0"

}  // namespace amp
