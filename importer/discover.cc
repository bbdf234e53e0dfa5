#include "importer/discover.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "importer/evidence.h"
#include "importer/evidence_position.h"

namespace amp {
namespace {

class Discovery {
 public:
  Discovery(SourceGraph& g, const ExporterRecord& record) : g_(g), record_(record), positions_(g) {
    named_ = record.lists_parameters || weights_have_names();
  }

  std::vector<Verdict> run() {
    std::vector<Verdict> verdicts(g_.values.size());
    for (size_t v = 0; v < g_.values.size(); ++v) {
      if (g_.values[v].kind == SourceKind::constant) decide(static_cast<int>(v), verdicts[v]);
    }
    return verdicts;
  }

 private:
  const TensorRecord& record(int v) const { return record_.of[static_cast<size_t>(v)]; }

  // PyTorch names every initializer after the module that holds it, one held by the model itself has no dot.
  Naming own_naming(int v) const {
    const TensorRecord& r = record(v);
    if (!r.initializer) return Naming::made_up;
    Naming best = Naming::made_up;
    for (const std::string& name : r.names) {
      const Naming n = naming_of(name);
      if (n == Naming::module || (n == Naming::none && record_.torch)) return Naming::module;
      if (n != Naming::made_up) best = n;
    }
    return best;
  }

  // At least a fifth of the initializers in weights' positions have names that come from modules.
  bool weights_have_names() const {
    int named = 0, all = 0;
    for (size_t i = 0; i < g_.values.size(); ++i) {
      const SourceValue& v = g_.values[i];
      const int at = static_cast<int>(i);
      if (v.kind != SourceKind::constant || !v.data || !is_float(v.data.dtype()) || v.data.numel() < 2) continue;
      const std::vector<Use> uses = positions_.uses(at);
      if (uses.empty() || !record(at).initializer) continue;
      const Use& u = PositionEvidence::main_use(uses);
      if (!weight_role(u.at(), u.site_input)) continue;
      ++all;
      const Naming n = own_naming(at);
      named += n == Naming::module || n == Naming::folded;
    }
    return named > 0 && named * 5 >= all;
  }

  void decide(int v, Verdict& verdict) {
    SourceValue& value = g_.values[static_cast<size_t>(v)];
    const HostTensor& data = value.data;
    if (!value.reason.empty()) return;  // decided when it was read
    if (!data) {
      value.reason = "constant: its type has no arithmetic";
      return;
    }
    if (!is_float(data.dtype())) {
      value.reason = cat("constant: ", name_of(data.dtype()));
      return;
    }
    const std::vector<Use> uses = positions_.uses(v);
    if (uses.empty()) {
      const bool output = std::find(g_.outputs.begin(), g_.outputs.end(), v) != g_.outputs.end();
      value.reason = output ? "constant: only a graph output" : "constant: no graph output depends on it";
      return;
    }
    const Use& main = PositionEvidence::main_use(uses);
    if (data.numel() == 0) {
      value.reason = cat("constant: no element, ", PositionEvidence::place(main));
      return;
    }
    verdict.evidence = weigh(v, uses);
    if (verdict.weight()) {
      const char* role = weight_role(main.at(), main.site_input);
      value.kind = SourceKind::parameter;
      value.trainable = true;
      value.reason = cat(role ? role : "weight", ": ", PositionEvidence::place(main));
    } else {
      const auto strongest = std::min_element(verdict.evidence.begin(), verdict.evidence.end(),
                                              [](const Evidence& a, const Evidence& b) { return a.weight < b.weight; });
      value.reason = cat("constant: ", strongest->text, ", ", PositionEvidence::place(main));
    }
  }

  std::vector<Evidence> weigh(int v, const std::vector<Use>& uses) const {
    const HostTensor& data = g_.values[static_cast<size_t>(v)].data;
    std::vector<Evidence> out;
    const Naming naming = name_evidence(v, out);
    for (Evidence& e : positions_.weigh(v, uses, naming)) out.push_back(std::move(e));
    for (Evidence& e : value_evidence(data, naming, operands_only(uses))) out.push_back(std::move(e));
    return out;
  }

  static bool operands_only(const std::vector<Use>& uses) {
    return std::all_of(uses.begin(), uses.end(), [](const Use& u) {
      const std::string& op = u.at().op;
      return op == "Add" || op == "Sub" || op == "Mul" || op == "Sum" || !weight_role(u.at(), u.site_input);
    });
  }

  // What exporter and name say. The naming decides how much position and values count.
  Naming name_evidence(int v, std::vector<Evidence>& out) const {
    const TensorRecord& r = record(v);
    switch (r.kind) {
      case Recorded::parameter:
        out.push_back({"the exporter lists it as a parameter", 9});
        return Naming::module;
      case Recorded::buffer:
        out.push_back({"the exporter lists it as a buffer", -12});
        return Naming::module;
      case Recorded::folded:
        out.push_back({cat("the exporter computed it from parameter '", printable(r.from), "'"), 6});
        return Naming::folded;
      case Recorded::computed:
        out.push_back({"the exporter computed it from constants", -8});
        return Naming::made_up;
      case Recorded::nothing:
        break;
    }
    if (!named_) {
      usual(r, 0.5, out);
      return Naming::none;
    }
    const Naming naming = own_naming(v);
    if (naming == Naming::module) {
      out.push_back({"named after a module", 4});
      usual(r, 1, out);
    } else if (naming == Naming::folded) {
      out.push_back({"the exporter computed it from a module's tensor", 3});
    } else if (naming == Naming::made_up) {
      if (r.initializer) {
        out.push_back({"the exporter made up its name, other weights have theirs", -1});
      } else {
        out.push_back({"in a Constant node, the file's weights are named initializers", record_.torch ? -9.0 : -6.0});
      }
    } else {
      usual(r, 0.5, out);
    }
    return naming;
  }

  // The name among the merged ones that speaks most for a parameter.
  static void usual(const TensorRecord& r, double factor, std::vector<Evidence>& out) {
    std::optional<Evidence> best;
    bool silent = false;
    for (const std::string& name : r.names) {
      const auto e = usual_name(name);
      silent = silent || !e;
      if (e && (!best || e->weight > best->weight)) best = e;
    }
    if (best && !(best->weight < 0 && silent)) out.push_back({best->text, best->weight * factor});
  }

  SourceGraph& g_;
  const ExporterRecord& record_;
  const PositionEvidence positions_;
  bool named_ = false;
};

}  // namespace

std::vector<Verdict> discover_parameters(SourceGraph& g, const ExporterRecord& record) {
  return Discovery(g, record).run();
}

}  // namespace amp
