#include "run/version.h"

namespace amp {

std::string program_version() { return "onnx-amp-finetune " ONNX_AMP_VERSION "\n"; }

}  // namespace amp
