#include "importer/read/schema.h"

#include <onnx/defs/schema.h>

#include "base/error.h"
#include "base/text.h"
#include "importer/read/newer_onnx.h"

namespace amp {
namespace {

[[noreturn]] void refuse(const onnx::NodeProto& node, const std::string& fact) {
  fail(Exit::model, "E_ATTR", cat(printable(node.op_type()), " ", fact));
}

void check_counts(const onnx::NodeProto& node, const onnx::OpSchema& schema) {
  if (node.input_size() > schema.max_input())
    refuse(node, cat("has ", node.input_size(), " inputs, it takes at most ", schema.max_input()));
  if (node.output_size() > schema.max_output())
    refuse(node, cat("has ", node.output_size(), " outputs, it gives at most ", schema.max_output()));
  for (size_t i = 0; i < schema.inputs().size(); ++i) {
    const auto& formal = schema.inputs()[i];
    if (formal.GetOption() != onnx::OpSchema::Single) continue;
    if (static_cast<int>(i) < node.input_size() && !node.input(static_cast<int>(i)).empty()) continue;
    if (static_cast<int>(i) >= schema.min_input()) continue;
    refuse(node, cat("lacks input ", i, " (", formal.GetName(), ")"));
  }
}

// Refuses attributes that the version of the operator does not have: ignoring one could change the results.
void check_names(const onnx::NodeProto& node, const AttrTable& attrs, const onnx::OpSchema& schema, int64_t version) {
  if (node.op_type() == "LayerNormalization") return;  // its schema accepts all attributes
  for (const auto& [name, attribute] : attrs) {
    const bool internal = name.rfind("__", 0) == 0;  // onnxruntime accepts these, too
    if (internal || schema.attributes().count(name) || is_newer_attribute(node.op_type(), version, name)) continue;
    refuse(node, cat("has attribute '", printable(name), "', which the operator does not have in opset ", version));
  }
}

void check_attributes(const onnx::NodeProto& node, const AttrTable& attrs, const onnx::OpSchema& schema) {
  for (const auto& [name, formal] : schema.attributes()) {
    const auto it = attrs.find(name);
    if (it == attrs.end()) {
      if (formal.required) refuse(node, cat("lacks attribute '", name, "'"));
      continue;
    }
    if (it->second->type() == formal.type) continue;
    const auto kind = [](int type) {
      return onnx::AttributeProto::AttributeType_IsValid(type)
                 ? onnx::AttributeProto::AttributeType_Name(static_cast<onnx::AttributeProto::AttributeType>(type))
                 : cat("kind ", type);
    };
    refuse(node,
           cat("has attribute '", name, "' of kind ", kind(it->second->type()), ", it takes ", kind(formal.type)));
  }
}

}  // namespace

void check_schema(const onnx::NodeProto& node, const AttrTable& attrs, const Opsets& opsets) {
  const std::string domain = standard(node.domain());
  const auto version = opsets.find(domain);
  const int64_t opset = version == opsets.end() ? 1 : version->second;
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(opset), domain);
  if (!schema) return;
  check_counts(node, *schema);
  check_attributes(node, attrs, *schema);
  check_names(node, attrs, *schema, opset);
}

}  // namespace amp
