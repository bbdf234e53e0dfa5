// Reads models that a newer version of ONNX wrote than the linked library, and refuses those with unknown features.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>

namespace amp {

// Newest version of ai.onnx whose operators ops/ computes: that of ONNX 1.23. The linked library may be older.
constexpr int64_t kNewestOpset = 28;

// Newest version of the file format whose changes are known: that of ONNX 1.23. It adds two element types to version 13
// (FLOAT6E2M3, FLOAT6E3M2), and no fields.
constexpr int64_t kNewestIrVersion = 14;
constexpr int kNewestDataType = 28;  // FLOAT6E3M2

// Refuses a model of an IR version above kNewestIrVersion if its nodes, attributes, tensors, types or functions have
// fields that the linked library lacks: such a field may change what a node computes. Throws E_IR_VERSION
// (Exit::unsupported). Unknown fields elsewhere are accepted; an export keeps them.
void refuse_unknown_fields(const onnx::ModelProto& model);

// Returns true if the model's IR version is newer than the linked library's.
bool has_newer_ir_version(const onnx::ModelProto& model);

// Returns a note if the model's IR version or opset is newer than the linked library; else an empty string.
std::string newer_onnx_note(const onnx::ModelProto& model);

// Returns true if ops/ reads this attribute, and the linked library's schema of the operator lacks it.
bool is_newer_attribute(const std::string& op, int64_t version, const std::string& attribute);

}  // namespace amp
