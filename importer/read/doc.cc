#include "importer/read/doc.h"

namespace amp {
namespace {

struct PayloadVisitor {
  const std::function<void(int, Slot)>& visit;
  int next = 0;

  void attribute(onnx::AttributeProto& a) {
    if (a.has_t()) visit(next++, {a.mutable_t(), nullptr});
    for (auto& t : *a.mutable_tensors()) visit(next++, {&t, nullptr});
    if (a.has_f() || a.floats_size() > 0) visit(next++, {nullptr, &a});
    if (a.has_g()) graph(*a.mutable_g());
    for (auto& g : *a.mutable_graphs()) graph(g);
  }
  void node(onnx::NodeProto& n) {
    for (auto& a : *n.mutable_attribute()) attribute(a);
  }
  // Recursion is bounded by protobuf's own nesting limit of 100.
  void graph(onnx::GraphProto& g) {
    for (auto& t : *g.mutable_initializer()) visit(next++, {&t, nullptr});
    for (auto& n : *g.mutable_node()) node(n);
  }
};

}  // namespace

void for_each_slot(onnx::ModelProto& model, const std::function<void(int, Slot)>& visit) {
  PayloadVisitor walk{visit};
  if (model.has_graph()) walk.graph(*model.mutable_graph());
  for (auto& f : *model.mutable_functions()) {
    for (auto& a : *f.mutable_attribute_proto()) walk.attribute(a);
    for (auto& n : *f.mutable_node()) walk.node(n);
  }
}

}  // namespace amp
