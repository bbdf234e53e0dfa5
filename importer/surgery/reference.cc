// Copies the nodes whose result differs between the trained model and the recorded one. These are nodes that read a
// weight that trains or that surgery changed, nodes whose inputs an adapter or dropout replaced, and all nodes after
// them. Surgery does not change indices of values, so a recorded node still refers to the right values.
#include "importer/surgery/reference.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "graph/bind.h"
#include "importer/read/build.h"

namespace amp {

namespace {

class Copier {
 public:
  Copier(SourceGraph& g, const std::map<int, HostTensor>& weights)
      : g_(g), weights_(weights), copies_(g.values.size(), -1) {}

  void copy(const SourceNode& n);
  // Returns the reference's counterpart of a value of the recorded graph: its copy, or the value itself if the two are
  // equal.
  int of(int v);
  int64_t nodes() const { return nodes_; }
  int64_t elements() const { return elements_; }

 private:
  const SourceValue& value(int v) const { return g_.value(v); }
  bool changes(int parameter) const;
  int copied_weight(int v);
  int copied_value(int v);

  SourceGraph& g_;
  const std::map<int, HostTensor>& weights_;
  std::vector<int> copies_;  // indexed by value of the recorded graph; -1: none
  int64_t nodes_ = 0, elements_ = 0;
};

bool Copier::changes(int v) const {
  const int master = value(v).tied_to;
  const auto recorded = weights_.find(v);
  return value(master < 0 ? v : master).trainable ||
         (recorded != weights_.end() && recorded->second.data() != value(v).data.data());
}

int Copier::copied_weight(int v) {
  SourceValue w = value(v);
  const int master = w.tied_to;
  w.name = g_.fresh_name(w.name + "/reference");
  w.data = weights_.at(v);
  w.trainable = w.replaced = false;
  w.alias.clear();
  w.reason = ReferenceModel::kReason;
  if (master >= 0) w.tied_to = of(master);
  if (master < 0) elements_ += w.data.numel();
  return copies_[static_cast<size_t>(v)] = g_.add_value(std::move(w));
}

int Copier::of(int v) {
  if (v < 0) return v;
  if (const int copy = copies_[static_cast<size_t>(v)]; copy >= 0) return copy;
  return value(v).kind == SourceKind::parameter && changes(v) ? copied_weight(v) : v;
}

int Copier::copied_value(int v) {
  if (v < 0) return v;
  SourceValue x = value(v);
  x.name = g_.fresh_name(x.name + "/reference");
  x.alias.clear();
  x.producer = -1;
  return copies_[static_cast<size_t>(v)] = g_.add_value(std::move(x));
}

void Copier::copy(const SourceNode& n) {
  if (n.op == "Dropout") {
    copies_[static_cast<size_t>(n.outputs.at(0))] = of(n.inputs.at(0));
    return;
  }
  SourceNode copy = n;
  for (int& v : copy.inputs) v = of(v);
  const auto made = std::find_if(n.outputs.begin(), n.outputs.end(), [](int v) { return v >= 0; });
  const SourceNode& now = g_.nodes[static_cast<size_t>(value(*made).producer)];
  const bool dropout = now.attrs.f("training_dropout", 0) > 0;
  if (copy.inputs == n.inputs && now.inputs == n.inputs && !dropout) return;
  copy.name += "/reference";
  copy.place = Place::training;
  if (dropout) copy.attrs.set("training_dropout", 0.0);
  for (int& v : copy.outputs) v = copied_value(v);
  g_.add_node(std::move(copy));
  ++nodes_;
}

void require_copyable(const SourceNode& n) {
  const char* const hint = "give the model before training with `teacher`";
  if (n.op == "BatchNormalization")
    fail(Exit::usage, "E_TEACHER",
         cat("node '", printable(n.name), "' (BatchNormalization) has statistics that training changes, so the model ",
             "before training cannot be computed beside the trained one"),
         hint);
  if (!captures(n).empty())
    fail(Exit::usage, "E_TEACHER",
         cat("node '", printable(n.name), "' (", printable(n.op), ") has a nested graph that reads values of the main ",
             "graph, so the model before training cannot be computed beside the trained one"),
         hint);
}

}  // namespace

ReferenceModel::ReferenceModel(const SourceGraph& g, std::vector<int> outputs) : outputs_(std::move(outputs)) {
  const std::vector<bool> live = live_nodes(g, outputs_);
  for (size_t i = 0; i < live.size(); ++i) {
    if (live[i]) nodes_.push_back(g.nodes[i]);
  }
  for (size_t v = 0; v < g.values.size(); ++v) {
    if (g.values[v].kind == SourceKind::parameter) weights_[static_cast<int>(v)] = g.values[v].data;
  }
}

ReferenceModel::Added ReferenceModel::add(SourceGraph& g) const {
  Copier copier(g, weights_);
  for (const SourceNode& n : nodes_) {
    require_copyable(n);
    copier.copy(n);
  }
  Added out;
  for (const int v : outputs_) out.outputs.push_back(copier.of(v));
  out.nodes = copier.nodes();
  out.elements = copier.elements();
  return out;
}

}  // namespace amp
