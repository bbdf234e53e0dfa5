// Which version this is.
#pragma once

#include <string>

namespace amp {

std::string program_version();  // a line: "onnx-amp-finetune 0.2.0"

}  // namespace amp
