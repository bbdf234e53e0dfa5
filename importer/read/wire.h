// Explains why bytes are not a well-formed ONNX protobuf, and at which offset. Called after the parser has rejected
// them.
#pragma once

#include <string>
#include <string_view>

namespace amp {

struct WireFault {
  enum Kind { none, truncated, malformed, too_deep } kind = none;
  size_t offset = 0;   // byte offset of the malformed field
  std::string path;    // such as "graph.initializer[3].raw_data"
  std::string detail;  // such as "needs 1536 bytes, 20 are left"
};

WireFault scan_wire(std::string_view bytes);

}  // namespace amp
