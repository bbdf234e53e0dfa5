// Scans the protobuf wire format with the field numbers of onnx.proto. It runs only after the parser has failed, to
// report the offset and the path of the first fault. It is iterative, so that deep nesting cannot overflow the stack.
#include "importer/read/wire.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"

namespace amp {
namespace {

enum Message { kModel, kGraph, kNode, kAttribute, kTensor, kFunction, kOther };

struct Field {
  const char* name;
  Message message = kOther;
};

// Field numbers of onnx.proto. The scanner does not enter messages that are not listed.
const std::map<std::pair<Message, uint64_t>, Field>& fields() {
  static const std::map<std::pair<Message, uint64_t>, Field> table = {
      {{kModel, 1}, {"ir_version"}},
      {{kModel, 2}, {"producer_name"}},
      {{kModel, 3}, {"producer_version"}},
      {{kModel, 4}, {"domain"}},
      {{kModel, 5}, {"model_version"}},
      {{kModel, 6}, {"doc_string"}},
      {{kModel, 7}, {"graph", kGraph}},
      {{kModel, 8}, {"opset_import"}},
      {{kModel, 14}, {"metadata_props"}},
      {{kModel, 25}, {"functions", kFunction}},
      {{kGraph, 1}, {"node", kNode}},
      {{kGraph, 2}, {"name"}},
      {{kGraph, 5}, {"initializer", kTensor}},
      {{kGraph, 10}, {"doc_string"}},
      {{kGraph, 11}, {"input"}},
      {{kGraph, 12}, {"output"}},
      {{kGraph, 13}, {"value_info"}},
      {{kNode, 1}, {"input"}},
      {{kNode, 2}, {"output"}},
      {{kNode, 3}, {"name"}},
      {{kNode, 4}, {"op_type"}},
      {{kNode, 5}, {"attribute", kAttribute}},
      {{kNode, 6}, {"doc_string"}},
      {{kNode, 7}, {"domain"}},
      {{kAttribute, 1}, {"name"}},
      {{kAttribute, 5}, {"t", kTensor}},
      {{kAttribute, 6}, {"g", kGraph}},
      {{kAttribute, 10}, {"tensors", kTensor}},
      {{kAttribute, 11}, {"graphs", kGraph}},
      {{kTensor, 1}, {"dims"}},
      {{kTensor, 2}, {"data_type"}},
      {{kTensor, 4}, {"float_data"}},
      {{kTensor, 5}, {"int32_data"}},
      {{kTensor, 7}, {"int64_data"}},
      {{kTensor, 8}, {"name"}},
      {{kTensor, 9}, {"raw_data"}},
      {{kTensor, 10}, {"double_data"}},
      {{kTensor, 13}, {"external_data"}},
      {{kFunction, 1}, {"name"}},
      {{kFunction, 7}, {"node", kNode}},
      {{kFunction, 11}, {"attribute_proto", kAttribute}}};
  return table;
}

// A message being read. Its end is computed from the lengths in the file and may be beyond the file's end.
struct Frame {
  Message message;
  uint64_t end;
  std::string name;
  std::map<uint64_t, int> seen;  // field number -> number of occurrences, for the index in a path
};

// Reads the varint at `at` and advances `at`. Returns 0, -1 if the bytes end, or -2 if the varint is longer than ten
// bytes.
int read_varint(std::string_view bytes, size_t& at, uint64_t& value) {
  value = 0;
  for (int i = 0; i < 10; ++i) {
    if (at >= bytes.size()) return -1;
    const auto b = static_cast<uint8_t>(bytes[at++]);
    value |= static_cast<uint64_t>(b & 0x7f) << (7 * i);
    if (!(b & 0x80)) return 0;
  }
  return -2;
}

}  // namespace

WireFault scan_wire(std::string_view bytes) {
  constexpr size_t kDepth = 100;  // protobuf's own limit
  std::vector<Frame> stack;
  stack.push_back({kModel, bytes.size(), "", {}});
  size_t at = 0;
  std::string field_name;
  const auto fault = [&](WireFault::Kind kind, size_t offset, std::string detail) {
    std::string path;
    for (size_t i = 1; i < stack.size(); ++i) path += stack[i].name + ".";
    return WireFault{kind, offset, path + field_name, std::move(detail)};
  };
  while (!stack.empty()) {
    field_name.clear();
    // Leave messages whose declared length is used up.
    while (!stack.empty() && at >= stack.back().end) stack.pop_back();
    if (stack.empty()) break;
    const size_t start = at;
    Frame& frame = stack.back();
    if (at >= bytes.size()) return fault(WireFault::truncated, at, cat(frame.end - at, " bytes of it are missing"));
    // Read the field's key: number and wire type.
    uint64_t key = 0;
    if (const int bad = read_varint(bytes, at, key)) {
      return fault(bad == -1 ? WireFault::truncated : WireFault::malformed, start, "field key does not end");
    }
    const uint64_t number = key >> 3, wire = key & 7;
    const auto known = fields().find({frame.message, number});
    const Field field = known == fields().end() ? Field{"", kOther} : known->second;
    field_name = *field.name ? field.name : cat("field ", number);
    const int index = frame.seen[number]++;
    if (number == 0) return fault(WireFault::malformed, start, "field number 0");
    // Read the value (varint) or the length of the value (bytes, fixed width).
    uint64_t length = wire == 1 ? 8 : wire == 5 ? 4 : 0;
    if (length == 0 && wire != 0 && wire != 2) return fault(WireFault::malformed, start, cat("wire type ", wire));
    if (const int bad = length == 0 ? read_varint(bytes, at, length) : 0) {
      const char* const why = wire == 2   ? "the length does not end"
                              : bad == -1 ? "the number does not end"
                                          : "a varint of more than ten bytes";
      return fault(bad == -1 ? WireFault::truncated : WireFault::malformed, start, why);
    }
    if (wire == 0) continue;
    // A field that is longer than its message is malformed. A field that is longer than the file is reported below, as
    // truncated.
    const uint64_t left_in_frame = frame.end - at;
    if (length > left_in_frame && stack.size() > 1 && frame.end <= bytes.size()) {
      return fault(WireFault::malformed, start, cat("needs ", length, " bytes, its message has ", left_in_frame));
    }
    // Enter known messages; skip the bytes of all other fields.
    if (wire == 2 && field.message != kOther) {
      if (stack.size() >= kDepth) return fault(WireFault::too_deep, start, "");
      stack.push_back(
          {field.message, at + std::min<uint64_t>(length, uint64_t{1} << 62), cat(field_name, "[", index, "]"), {}});
      continue;
    }
    if (length > bytes.size() - at) {
      return fault(WireFault::truncated, start, cat("needs ", length, " bytes, ", bytes.size() - at, " are left"));
    }
    at += length;
  }
  return {};
}

}  // namespace amp
