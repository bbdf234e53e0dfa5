// checker_says(): the checker of the linked ONNX library refuses newer IR versions, whose graphs it can check. So the
// parts of such a model are checked as those of the newest version that it accepts.
#include "importer/write/onnx_checker.h"

#include <onnx/checker.h>
#include <onnx/common/file_utils.h>
#include <onnx/defs/schema.h>
#include <onnx/shape_inference/implementation.h>

#include <exception>
#include <filesystem>
#include <functional>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "importer/read/newer_onnx.h"

namespace amp {
namespace {

std::string complaint_of(const std::function<void()>& check) {
  try {
    check();
    return "";
  } catch (const std::exception& e) {
    std::string line;
    for (const std::string& part : split(e.what(), '\n')) {
      if (!part.empty()) line += cat(line.empty() ? "" : " ", part);
    }
    return printable(line);
  }
}

// The options are those of check_model's full check: types are checked and all errors are thrown.
void infer_shapes(onnx::ModelProto& proto) {
  const onnx::ShapeInferenceOptions options(true, 1, false);
  onnx::shape_inference::InferShapes(proto, onnx::OpSchemaRegistry::Instance(), options);
}

// Checks what check_model() checks. Its overloads either refuse newer IR versions or find no external data.
void check_parts(const onnx::ModelProto& proto, const std::string& folder) {
  onnx::checker::CheckerContext context;
  context.set_model_dir(folder);
  context.set_ir_version(onnx::Version::IR_VERSION);
  std::unordered_map<std::string, int> opsets;
  for (const auto& o : proto.opset_import()) opsets[o.domain()] = static_cast<int>(o.version());
  context.set_opset_imports(opsets);
  const onnx::checker::LexicalScopeContext scope;
  onnx::checker::check_graph(proto.graph(), context, scope);
  onnx::checker::check_model_local_functions(proto, context, scope);
}

}  // namespace

std::string checker_says(const std::string& path, bool newer) {
  return complaint_of([&] {
    if (!newer) return onnx::checker::check_model(path, /*full_check=*/true);
    onnx::ModelProto proto;
    onnx::LoadProtoFromPath(path, proto);
    check_parts(proto, std::filesystem::path(path).parent_path().string());
    infer_shapes(proto);
  });
}

std::string checker_says(onnx::ModelProto& proto) {
  return complaint_of([&] {
    if (has_newer_ir_version(proto)) {
      check_parts(proto, "");
    } else {
      onnx::checker::check_model(proto, /*full_check=*/false);
    }
    infer_shapes(proto);
  });
}

std::string checker_says(const ModelDoc& doc) {
  if (!doc.path.empty()) return checker_says(doc.path, has_newer_ir_version(*doc.proto));
  onnx::ModelProto copy = *doc.proto;
  return checker_says(copy);
}

}  // namespace amp
