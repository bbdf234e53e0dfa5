// A map's node y = x W becomes y/base = x W, low = x A, up = low B, y = y/base + up. The nodes follow the map's node,
// so the order of the file stays topological.
#include "importer/write/add_slots.h"

#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "importer/read/tensor.h"

namespace amp {
namespace {

// rank: the symbol of the rank in the input's shape. Each map has a different symbol: onnxruntime reuses a buffer for
// values with equal symbolic shapes, and refuses to run if their sizes differ.
void add_input(onnx::GraphProto& g, const std::string& name, DType type, const std::string& rank,
               const HostTensor& empty) {
  *g.add_initializer() = encode(empty, name);
  onnx::ValueInfoProto& info = *g.add_input();
  info.set_name(name);
  auto& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(onnx_type_of(type));
  for (const int64_t d : empty.dims()) {
    auto& dim = *tensor.mutable_shape()->add_dim();
    if (d == 0) {
      dim.set_dim_param(rank);
    } else {
      dim.set_dim_value(d);
    }
  }
}

void add_product(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const char* op, const std::string& name,
                 const std::string& a, const std::string& b, const std::string& out) {
  onnx::NodeProto& n = *nodes.Add();
  n.set_op_type(op);
  n.set_name(name);
  n.add_input(a);
  n.add_input(b);
  n.add_output(out);
}

// Returns the outputs of each site's nodes, by their names in the file. Throws E_EXPORT_INNER.
std::map<std::string, const AdapterSite*> outputs_of(const ModelDoc& doc, const std::vector<AdapterSite>& sites) {
  std::map<std::string, const AdapterSite*> out;
  for (const AdapterSite& site : sites) {
    if (site.in_file) continue;
    for (const int v : site.outputs) {
      check(v < doc.values, "a slot at a value that is not in the file");
      if (!doc.visible[static_cast<size_t>(v)])
        fail(Exit::unsupported, "E_EXPORT_INNER",
             cat("the linear map '", printable(site.map), "' is inside a local function or a branch of the file"),
             "export adapters merged (`lora_export` merge) or as nodes (`lora_export` keep)");
      out[doc.names[static_cast<size_t>(v)]] = &site;
    }
  }
  return out;
}

}  // namespace

void add_slots(onnx::ModelProto& model, const ModelDoc& doc, const std::vector<AdapterSite>& sites) {
  const std::map<std::string, const AdapterSite*> outputs = outputs_of(doc, sites);
  onnx::GraphProto& g = *model.mutable_graph();
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
  size_t added = 0;
  std::set<const AdapterSite*> seen;
  for (auto& node : *g.mutable_node()) {
    const auto it = node.output_size() > 0 ? outputs.find(node.output(0)) : outputs.end();
    nodes.Add()->Swap(&node);
    if (it == outputs.end()) continue;
    onnx::NodeProto& map = *nodes.Mutable(nodes.size() - 1);
    const AdapterSite& site = *it->second;
    const std::string y = map.output(0), x = map.input(0);
    const bool first = seen.insert(&site).second;
    const std::string name = first ? cat("/", site.module, "/lora") : cat(y, "/lora");
    map.set_output(0, y + "/base");
    add_product(nodes, "MatMul", name + "_A/MatMul", x, site.a, y + "/lora_A");
    add_product(nodes, "MatMul", name + "_B/MatMul", y + "/lora_A", site.b, y + "/lora_B");
    add_product(nodes, "Add", name + "/Add", y + "/base", y + "/lora_B", y);
    ++added;
  }
  check(added == outputs.size(), "a slot's map is not in the file");
  g.mutable_node()->Swap(&nodes);
  for (size_t i = 0; i < sites.size(); ++i) {
    const AdapterSite& site = sites[i];
    if (site.in_file) continue;
    const std::string rank = cat("lora_r_", i);
    add_input(g, site.a, site.type, rank, HostTensor::zeros(site.type, {site.in, 0}));
    add_input(g, site.b, site.type, rank, HostTensor::zeros(site.type, {0, site.out}));
  }
}

}  // namespace amp
