#include "importer/read/schema.h"

#include <onnx/defs/schema.h>

#include "base/error.h"
#include "base/text.h"

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
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(
      node.op_type(), static_cast<int>(version == opsets.end() ? 1 : version->second), domain);
  if (!schema) return;
  check_counts(node, *schema);
  check_attributes(node, attrs, *schema);
}

}  // namespace amp
