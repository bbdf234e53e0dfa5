// Recognizes other formats by field numbers and the first nested fields, because the ONNX parser accepts some of them
// as a model without a graph. Sources: Core ML's Model.proto, TensorFlow's saved_model.proto, meta_graph.proto,
// graph.proto and node_def.proto, caffe.proto, PaddlePaddle's framework.proto. Only the beginning of a file is read, so
// the last field may be incomplete.
#include "importer/read/foreign_protobuf.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

namespace amp {
namespace {

constexpr uint64_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

struct Field {
  uint64_t number = 0, wire = 0;
  std::string_view payload;  // if wire is kBytes: the bytes, cut off at the end of the data
};

bool read_varint(std::string_view bytes, size_t& at, uint64_t& v) {
  v = 0;
  for (int shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
    const auto b = static_cast<uint8_t>(bytes[at++]);
    v |= static_cast<uint64_t>(b & 0x7f) << shift;
    if (!(b & 0x80)) return true;
  }
  return false;
}

// Returns the fields of a message, as far as the bytes go; empty if the bytes are not a message.
std::vector<Field> fields_of(std::string_view bytes) {
  std::vector<Field> out;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t key = 0, length = 0;
    if (!read_varint(bytes, at, key) || key >> 3 == 0) return at >= bytes.size() ? out : std::vector<Field>();
    const uint64_t wire = key & 7;
    if (wire == kVarint || wire == kBytes) {
      if (!read_varint(bytes, at, length)) return out;
    } else if (wire == kFixed64 || wire == kFixed32) {
      length = wire == kFixed64 ? 8 : 4;
    } else {
      return {};
    }
    if (wire == kVarint) {
      out.push_back({key >> 3, wire, {}});
      continue;
    }
    out.push_back({key >> 3, wire, bytes.substr(at, length)});
    if (length > bytes.size() - at) return out;
    at += length;
  }
  return out;
}

const Field* find(const std::vector<Field>& fields, uint64_t number, uint64_t wire) {
  const auto it =
      std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.number == number && f.wire == wire; });
  return it == fields.end() ? nullptr : &*it;
}

bool is_text(std::string_view s) {
  return std::none_of(s.begin(), s.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

bool is_identifier(std::string_view s) {
  const auto one = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '>'; };
  return !s.empty() && std::all_of(s.begin(), s.end(), one);
}

// Recognizes messages that begin like an ONNX model: a number, then bytes. In a SavedModel the bytes are a
// MetaGraphDef, which begins with a MetaInfoDef (tags = 4, version = 5). In a Core ML model they are a
// ModelDescription, which begins with a feature (name, type = 3).
std::optional<ForeignFile> of_versioned(const std::vector<Field>& fields) {
  const ForeignFile core_ml{"a Core ML model", "export the model that it was made from to ONNX", true};
  const ForeignFile saved_model{"TensorFlow's saved_model.pb",
                                "name its folder: `python -m tf2onnx.convert --saved-model FOLDER --output model.onnx`",
                                true};
  const Field* const second = find(fields, 2, kBytes);
  if (!find(fields, 1, kVarint) || !second) return std::nullopt;
  const auto is_kind = [](const Field& f) {
    return f.number >= 200 && f.number < 4000;
  };  // the kind of a Core ML model
  if (std::any_of(fields.begin(), fields.end(), is_kind)) return core_ml;
  for (const std::string_view part : {"saved_model_main_op", "serving_default", "StatefulPartitionedCall"}) {
    if (second->payload.find(part) != std::string_view::npos) return saved_model;
  }
  const std::vector<Field> nested = fields_of(second->payload);
  if (nested.empty() || nested[0].number != 1 || nested[0].wire != kBytes) return std::nullopt;
  const std::vector<Field> first = fields_of(nested[0].payload);
  if (find(first, 4, kBytes) || find(first, 5, kBytes)) return saved_model;
  if (find(first, 1, kBytes) && find(first, 3, kBytes)) return core_ml;
  return std::nullopt;
}

// Recognizes messages that begin with bytes, as ONNX models do not.
std::optional<ForeignFile> of_unversioned(const std::vector<Field>& fields) {
  using namespace std::string_view_literals;
  const std::string_view begin = fields[0].payload;
  // A PaddlePaddle program begins with a block with the index 0 and the parent -1.
  if (begin.substr(0, 13) == "\x08\x00\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv ||
      begin.find("pd_op.") != std::string_view::npos)
    return ForeignFile{"a PaddlePaddle model", "convert it with paddle2onnx", true};
  const std::vector<Field> node = fields_of(begin);
  if (node.size() >= 2 && node[0].number == 1 && node[0].wire == kBytes && is_text(node[0].payload) &&
      node[1].number == 2 && node[1].wire == kBytes && is_identifier(node[1].payload))
    return ForeignFile{"a TensorFlow graph",
                       "`python -m tf2onnx.convert --graphdef FILE --inputs NAME:0 --outputs NAME:0 --output "
                       "model.onnx` converts it",
                       true};
  if (is_text(begin) && (find(fields, 100, kBytes) || find(fields, 2, kBytes)))  // layers of the old or new format
    return ForeignFile{"a Caffe model", "export the model with its weights to ONNX", true};
  return std::nullopt;
}

}  // namespace

std::optional<ForeignFile> recognize_protobuf(std::string_view head) {
  const std::vector<Field> fields = fields_of(head);
  constexpr uint64_t kGraph = 7;  // number of the field `graph` of an ONNX model
  if (fields.empty() || find(fields, kGraph, kBytes)) return std::nullopt;
  return fields[0].number == 1 && fields[0].wire == kBytes ? of_unversioned(fields) : of_versioned(fields);
}

}  // namespace amp
