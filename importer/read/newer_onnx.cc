// Each release of ONNX may raise the IR version and the opset although few operators change. Such models are accepted:
// ops/ implements the operators up to kNewestOpset, and changes of the file format would be visible as fields or
// element types that the linked library lacks.
#include "importer/read/newer_onnx.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>
#include <onnx/defs/schema.h>

#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "importer/read/opsets.h"

namespace amp {
namespace {

// Returns true for kinds of messages whose fields can change what a model computes.
bool determines_results(const google::protobuf::Descriptor& message) {
  if (const auto* outer = message.containing_type()) return determines_results(*outer);  // a kind of TypeProto
  return one_of(message.name(),
                {"NodeProto", "AttributeProto", "TensorProto", "SparseTensorProto", "FunctionProto", "TypeProto"});
}

// `path` is that of the message, such as "graph.node[3]".
void visit_fields(const google::protobuf::Message& message, const std::string& path) {
  const google::protobuf::Reflection& r = *message.GetReflection();
  const auto& unknown = r.GetUnknownFields(message);
  if (unknown.field_count() > 0 && determines_results(*message.GetDescriptor())) {
    fail(Exit::unsupported, "E_IR_VERSION",
         cat(path, " has field ", unknown.field(0).number(), ", which IR version ", kNewestIrVersion, " does not have"),
         "this program reads the fields of older versions: export the model again for an older ONNX version");
  }
  using google::protobuf::FieldDescriptor;
  std::vector<const FieldDescriptor*> set;
  r.ListFields(message, &set);
  for (const FieldDescriptor* f : set) {
    if (f->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const std::string name = cat(path, path.empty() ? "" : ".", f->name());
    if (!f->is_repeated()) visit_fields(r.GetMessage(message, f), name);
    for (int i = 0; f->is_repeated() && i < r.FieldSize(message, f); ++i) {
      visit_fields(r.GetRepeatedMessage(message, f, i), cat(name, "[", i, "]"));
    }
  }
}

struct NewerAttribute {
  const char* op;
  int64_t since;
  const char* attribute;
};
constexpr NewerAttribute kNewerAttributes[] = {
    {"Attention", 25, "left_window_size"}, {"Attention", 25, "right_window_size"}, {"SpaceToDepth", 28, "mode"}};

}  // namespace

void refuse_unknown_fields(const onnx::ModelProto& model) {
  if (model.ir_version() > kNewestIrVersion) visit_fields(model, "");
}

bool has_newer_ir_version(const onnx::ModelProto& model) { return model.ir_version() > onnx::Version::IR_VERSION; }

std::string newer_onnx_note(const onnx::ModelProto& model) {
  const int64_t known_opset =
      onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map().at(onnx::ONNX_DOMAIN).second;
  std::vector<std::string> newer;
  if (has_newer_ir_version(model))
    newer.push_back(cat("IR version ", model.ir_version(), " after ", int{onnx::Version::IR_VERSION}));
  for (const auto& o : model.opset_import()) {
    if (standard(o.domain()).empty() && o.version() > known_opset)
      newer.push_back(cat("opset ", o.version(), " after ", known_opset));
  }
  if (newer.empty()) return "";
  return cat("a newer ONNX than this program's wrote the model (", join(newer, ", "),
             "): an export keeps these versions; operators, attributes and types that are unknown here are refused");
}

bool is_newer_attribute(const std::string& op, int64_t version, const std::string& attribute) {
  for (const NewerAttribute& a : kNewerAttributes) {
    if (op == a.op && version >= a.since && attribute == a.attribute) return true;
  }
  return false;
}

}  // namespace amp
