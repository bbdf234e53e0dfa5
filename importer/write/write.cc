#include "importer/write/write.h"

#include "base/error.h"
#include "importer/read/doc.h"
#include "importer/read/tensor.h"
#include "importer/write/export.h"

namespace amp {
namespace {

constexpr int64_t kIrVersion = 8;  // IR version of ONNX 1.12, the release of opset 17

void add_input(onnx::GraphProto& g, const SourceValue& v) {
  check(v.rank_known, "a model's input without a rank");
  onnx::ValueInfoProto& info = *g.add_input();
  info.set_name(v.name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx_type_of(v.dtype));
  for (const Dim& d : v.dims) {
    auto& dim = *type.mutable_shape()->add_dim();
    if (d.value >= 0) {
      dim.set_dim_value(d.value);
    } else {
      dim.set_dim_param(d.symbol);
    }
  }
}

}  // namespace

void write_model(const SourceGraph& graph, const std::map<std::string, std::string>& metadata,
                 const std::string& path) {
  ModelDoc doc;  // describes a file with only inputs, to which export_model() adds everything else
  doc.proto = std::make_shared<onnx::ModelProto>();
  doc.proto->set_ir_version(kIrVersion);
  doc.proto->set_producer_name("onnx-amp-finetune");
  for (const auto& [domain, version] : graph.opsets) {
    onnx::OperatorSetIdProto& o = *doc.proto->add_opset_import();
    o.set_domain(domain);
    o.set_version(version);
  }
  onnx::GraphProto& g = *doc.proto->mutable_graph();
  g.set_name(graph.name);
  for (const int v : graph.inputs) {
    check(v == doc.values, "a model's inputs are its first values");
    add_input(g, graph.value(v));
    doc.names.push_back(graph.value(v).name);
    doc.visible.push_back(1);
    doc.slot_of.push_back(-1);
    ++doc.values;
  }
  ExportOptions options;
  options.metadata = metadata;
  export_model(doc, graph, {}, options, path);
}

}  // namespace amp
