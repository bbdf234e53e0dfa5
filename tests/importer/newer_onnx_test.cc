// Tests files of newer versions of ONNX than the linked library's: models whose operators, types and fields are known
// are trained, and their exports have the same versions. Other models are refused; the error names the unknown part.
#include <google/protobuf/unknown_field_set.h>

#include <catch2/catch_all.hpp>

#include "importer/write/export.h"
#include "models.h"

using namespace amp;
using namespace amp::test;

namespace {

// A field number that no message of ONNX uses.
constexpr int kUnknownField = 4000;

template <class Message>
void add_unknown_field(Message& m) {
  m.GetReflection()->MutableUnknownFields(&m)->AddLengthDelimited(kUnknownField, "kept");
}

template <class Message>
bool has_unknown_field(const Message& m) {
  const auto& fields = m.GetReflection()->GetUnknownFields(m);
  return fields.field_count() == 1 && fields.field(0).number() == kUnknownField &&
         fields.field(0).length_delimited() == "kept";
}

onnx::ModelProto newer(int64_t ir_version, int64_t opset) {
  onnx::ModelProto m = parse(kMlp);
  m.set_ir_version(ir_version);
  m.mutable_opset_import(0)->set_version(opset);
  return m;
}

onnx::ModelProto exported(const TempDir& folder, const Imported& model, const ExportOptions& options = {}) {
  const ExportReport report = export_model(*model.doc, model.graph, {}, options, folder / "out.onnx");
  for (const std::string& note : report.notes) CHECK(note.find("ONNX checker") == std::string::npos);
  onnx::ModelProto out;
  REQUIRE(out.ParseFromString(bytes_of(folder / "out.onnx")));
  return out;
}

size_t notes_about_versions(const Imported& model) {
  return static_cast<size_t>(std::count_if(model.notes.begin(), model.notes.end(), [](const std::string& note) {
    return note.find("a newer ONNX than this program's wrote the model") != std::string::npos;
  }));
}

}  // namespace

TEST_CASE("a model of a newer ONNX keeps its versions and its unknown fields", "[newer]") {
  const TempDir f;
  for (const int64_t ir_version : {14, 15, 99}) {
    onnx::ModelProto m = newer(ir_version, 28);
    add_unknown_field(m);
    add_unknown_field(*m.mutable_graph());
    add_unknown_field(*m.mutable_opset_import(0));
    const Imported model = import_model(save(f, m));
    CHECK(notes_about_versions(model) == 1);
    for (const char* precision : {"file", "fp16"}) {
      ExportOptions options;
      options.precision = precision;
      const onnx::ModelProto out = exported(f, model, options);
      CHECK(out.ir_version() == ir_version);
      CHECK(out.opset_import(0).version() == 28);
      CHECK(has_unknown_field(out));
      CHECK(has_unknown_field(out.graph()));
      CHECK(has_unknown_field(out.opset_import(0)));
    }
  }
  CHECK(notes_about_versions(import_model(save(f, newer(13, 27)))) == 0);
}

TEST_CASE("a model of a newer ONNX with external data is exported", "[newer]") {
  const TempDir f;
  ExportOptions outside;
  outside.inline_limit = 1;
  onnx::ModelProto m = newer(14, 28);
  onnx::TensorProto& large = *m.mutable_graph()->add_initializer();
  large.set_name("large");
  large.set_data_type(onnx::TensorProto::FLOAT);
  large.add_dims(512);
  large.set_raw_data(std::string(512 * sizeof(float), '\1'));
  const Imported first = import_model(save(f, m));
  export_model(*first.doc, first.graph, {}, outside, f / "external.onnx");
  const Imported second = import_model(f / "external.onnx");
  const onnx::ModelProto out = exported(f, second, outside);
  CHECK(out.ir_version() == 14);
  const auto& last = out.graph().initializer(out.graph().initializer_size() - 1);
  CHECK(last.name() == "large");
  CHECK(last.data_location() == onnx::TensorProto::EXTERNAL);
}

TEST_CASE("unknown fields that may change a result are refused", "[newer]") {
  const TempDir f;
  const auto refused = [&](auto change, const std::string& place) {
    onnx::ModelProto m = newer(15, 28);
    change(m);
    expect(import_error(save(f, m)), Exit::unsupported, "E_IR_VERSION", place + " has field 4000");
    m.set_ir_version(14);  // the fields of this version are known, so this one is another program's
    CHECK_NOTHROW(import_model(save(f, m)));
  };
  refused([](auto& m) { add_unknown_field(*m.mutable_graph()->mutable_node(1)); }, "graph.node[1]");
  refused([](auto& m) { add_unknown_field(*m.mutable_graph()->mutable_initializer(0)); }, "graph.initializer[0]");
  refused(
      [](auto& m) { add_unknown_field(*m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()); },
      "graph.input[0].type.tensor_type");
}

TEST_CASE("opsets, attributes and types of unknown versions are refused", "[newer]") {
  const TempDir f;
  expect(import_error(save(f, newer(14, 29))), Exit::unsupported, "E_OPSET", "opset 29; supported: 7 to 28");
  onnx::ModelProto m = newer(14, 28);
  onnx::FunctionProto& function = *m.add_functions();
  function.set_name("Part");
  function.set_domain("local");
  function.add_opset_import()->set_version(30);
  expect(import_error(save(f, m)), Exit::unsupported, "E_OPSET", "local function 'Part' uses opset 30");

  m = newer(14, 28);
  auto* node = m.mutable_graph()->mutable_node(0);
  auto* attribute = node->add_attribute();
  attribute->set_name("of_the_future");
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(1);
  expect(import_error(save(f, m)), Exit::model, "E_ATTR", "has attribute 'of_the_future'");

  constexpr int kFloat6 = 27;
  m = newer(14, 28);
  m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(kFloat6);
  expect(import_error(save(f, m)), Exit::unsupported, "E_TYPE", "FLOAT6E2M3");
  m = newer(14, 28);
  m.mutable_graph()->mutable_initializer(0)->set_data_type(kFloat6);
  expect(import_error(save(f, m)), Exit::unsupported, "E_TYPE", "FLOAT6E2M3");
}

TEST_CASE("a model without a version of the file format is refused with a remedy", "[newer]") {
  const TempDir f;
  onnx::ModelProto m = parse(kMlp);
  m.clear_ir_version();
  const Error missing = import_error(save(f, m));
  expect(missing, Exit::model, "E_ONNX_GRAPH", "has no ir_version");
  CHECK(missing.hint().find("m.ir_version = 8") != std::string::npos);
  m.set_ir_version(0);
  expect(import_error(save(f, m)), Exit::model, "E_ONNX_GRAPH", "ir_version is 0");
}
