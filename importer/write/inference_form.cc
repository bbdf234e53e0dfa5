// Rewrites BatchNormalization and Dropout in place, then removes initializers and Constants that only their removed
// inputs used. A name may be captured by a nested graph, so readers are collected with captures.
#include "importer/write/inference_form.h"

#include <algorithm>
#include <set>

#include "base/cat.h"
#include "base/text.h"
#include "importer/read/opsets.h"
#include "importer/read/order.h"
#include "importer/read/tensor.h"

namespace amp {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using Names = std::set<std::string>;

bool standard_op(const onnx::NodeProto& n, const char* op) { return n.op_type() == op && standard(n.domain()).empty(); }

// Returns the names that the nodes read, including names that nested graphs capture.
Names names_read(const Nodes& nodes) {
  Names read;
  for (const auto& n : nodes) {
    read.insert(n.input().begin(), n.input().end());
    read.merge(captured_names(n));
  }
  return read;
}

bool is_true(const onnx::TensorProto& t) {
  if (t.data_type() != onnx::TensorProto::BOOL || t.data_location() == onnx::TensorProto::EXTERNAL) return false;
  const HostTensor v = decode(t, nullptr);
  return v.numel() == 1 && *v.as<bool>();
}

class InferenceForm {
 public:
  explicit InferenceForm(std::vector<std::string>& notes) : notes_(notes) {}

  void graph(onnx::GraphProto& g, const Names& true_outside) {
    Names always = true_outside, read = names_read(g.node());
    for (const auto& t : g.initializer()) {
      if (is_true(t)) always.insert(t.name());
    }
    for (const auto& o : g.output()) read.insert(o.name());
    Names gone;
    body(*g.mutable_node(), std::move(always), read, gone);
    if (gone.empty()) return;
    for (const auto& o : g.output()) gone.erase(o.name());
    drop_named(*g.mutable_value_info(), gone);
    const Names still = names_read(g.node());
    for (const std::string& name : still) gone.erase(name);
    for (const auto& i : g.input()) gone.erase(i.name());  // an input without its initializer would become required
    drop_named(*g.mutable_initializer(), gone);
    drop_constants(*g.mutable_node(), gone);
  }

  void function(onnx::FunctionProto& f) {
    Names read = names_read(f.node()), gone;
    read.insert(f.output().begin(), f.output().end());
    body(*f.mutable_node(), {}, read, gone);
    const Names still = names_read(f.node());
    for (const std::string& name : still) gone.erase(name);
    drop_constants(*f.mutable_node(), gone);
  }

 private:
  // always: names of values that are constant true; gone: receives values that the nodes no longer produce or read.
  void body(Nodes& nodes, Names always, const Names& read, Names& gone) {
    for (const auto& n : nodes) {
      if (!standard_op(n, "Constant") || n.output_size() != 1) continue;
      for (const auto& a : n.attribute()) {
        if (a.name() == "value" && a.has_t() && is_true(a.t())) always.insert(n.output(0));
      }
    }
    for (auto& n : nodes) {
      if (standard_op(n, "BatchNormalization")) batch_norm(n, read, gone);
      if (standard_op(n, "Dropout")) dropout(n, always, read, gone);
      for (auto& a : *n.mutable_attribute()) {
        if (a.has_g()) graph(*a.mutable_g(), always);
      }
    }
  }

  void batch_norm(onnx::NodeProto& n, const Names& read, Names& gone) {
    const auto mode = std::find_if(n.mutable_attribute()->begin(), n.mutable_attribute()->end(),
                                   [](const auto& a) { return a.name() == "training_mode"; });
    const bool by_attribute = mode != n.mutable_attribute()->end() && mode->i() != 0;
    if (!by_attribute && n.output_size() < 2) return;
    const bool others =
        std::any_of(n.output().begin() + 1, n.output().end(), [&](const std::string& o) { return read.count(o) > 0; });
    if (others) {
      notes_.push_back(cat("BatchNormalization '", printable(n.name()),
                           "' keeps its training form: something reads its statistics"));
      return;
    }
    for (int i = 1; i < n.output_size(); ++i) gone.insert(n.output(i));
    n.mutable_output()->DeleteSubrange(1, n.output_size() - 1);
    if (mode != n.mutable_attribute()->end()) mode->set_i(0);
  }

  // Removes a training_mode input that is constant true, and the mask output if nothing reads it. Without training_mode
  // the output of Dropout is its input, and the mask is all true.
  static void dropout(onnx::NodeProto& n, const Names& always, const Names& read, Names& gone) {
    if (n.input_size() > 2 && always.count(n.input(2))) {
      gone.insert(n.input(2));
      n.mutable_input()->RemoveLast();
      if (n.input(1).empty()) n.mutable_input()->RemoveLast();
    }
    if (n.input_size() > 2 || n.output_size() < 2 || read.count(n.output(1))) return;
    gone.insert(n.output(1));
    n.mutable_output()->RemoveLast();
  }

  template <class Field>
  static void drop_named(Field& field, const Names& gone) {
    for (int i = field.size(); i-- > 0;) {
      if (gone.count(field[i].name())) field.DeleteSubrange(i, 1);
    }
  }
  static void drop_constants(Nodes& nodes, const Names& gone) {
    for (int i = nodes.size(); i-- > 0;) {
      if (standard_op(nodes[i], "Constant") && gone.count(nodes[i].output(0))) nodes.DeleteSubrange(i, 1);
    }
  }

  std::vector<std::string>& notes_;
};

}  // namespace

void to_inference_form(onnx::ModelProto& model, std::vector<std::string>& notes) {
  InferenceForm form(notes);
  form.graph(*model.mutable_graph(), {});
  for (auto& f : *model.mutable_functions()) form.function(f);
}

}  // namespace amp
