// Reads the metadata of PyTorch's torch.export-based exporter (graph signature, InputSpec kinds) and of onnxscript's
// optimizer (folded_from), and the mark of constants that this program added. Identity nodes give the names of tensors
// that an exporter merged.
#include "importer/discover/exporter_record.h"

#include <algorithm>
#include <map>
#include <set>

namespace amp {
namespace {

constexpr const char* kSignature = "pkg.torch.export.ExportedProgram.graph_signature";
constexpr const char* kKind = "pkg.torch.export.graph_signature.InputSpec.kind";
constexpr const char* kFolded = "pkg.onnxscript.optimizer.folded_from";

std::vector<std::string> quoted_parts(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = text.find('\''); at != std::string::npos; at = text.find('\'', at + 1)) {
    const size_t end = text.find('\'', at + 1);
    if (end == std::string::npos) break;
    out.push_back(text.substr(at + 1, end - at - 1));
    at = end;
  }
  return out;
}

struct Signature {
  std::set<std::string> parameters, buffers;

  // Adds the parameters and buffers that a printed signature lists. An entry is "p_head_weight: PARAMETER
  // target='head.weight'" or InputSpec(kind=<InputKind.PARAMETER: 2>, ..., target='...'); in both forms the kind
  // precedes the target. The outputs of the signature are not read: they repeat buffers that are also inputs.
  void read(const std::string& text) {
    static const std::string key = "target='";
    const size_t stop = std::min(text.find("# outputs"), text.find("output_specs="));
    size_t from = 0;
    for (size_t at = text.find(key); at < stop && at != std::string::npos; at = text.find(key, from)) {
      const size_t end = text.find('\'', at + key.size());
      if (end == std::string::npos) break;
      const std::string target = text.substr(at + key.size(), end - at - key.size());
      const std::string before = text.substr(from, at - from);
      if (before.find("PARAMETER") != std::string::npos) {
        parameters.insert(target);
      } else if (before.find("BUFFER") != std::string::npos || before.find("CONSTANT_TENSOR") != std::string::npos) {
        buffers.insert(target);
      }
      from = end + 1;
    }
  }
};

class Reader {
 public:
  Reader(const Built& built, const ModelDoc& doc) : built_(built), graph_(doc.proto->graph()) {
    // Models that `create` and `convert` write use PyTorch's names.
    const std::string& producer = doc.proto->producer_name();
    torch_ = producer == "pytorch" || producer == "onnx-amp-finetune";
    for (const auto& t : graph_.initializer()) {
      torch_ = torch_ || t.name().rfind("onnx::", 0) == 0;
      for (const auto& p : t.metadata_props()) {
        if (p.key() == kAddedConstant) added_.insert(t.name());
      }
    }
    for (const auto& p : graph_.metadata_props()) {
      if (p.key() == kSignature) signature_.read(p.value());
    }
    for (const auto& v : graph_.value_info()) {
      for (const auto& p : v.metadata_props()) {
        if (p.key() == kFolded) folded_[v.name()] = quoted_parts(p.value());
        if (p.key() != kKind) continue;
        if (p.value() == "PARAMETER") signature_.parameters.insert(v.name());
        if (p.value() == "BUFFER" || p.value() == "CONSTANT_TENSOR") signature_.buffers.insert(v.name());
      }
    }
    find_initializers(*doc.proto);
    find_merged();
  }

  ExporterRecord read() const {
    ExporterRecord out;
    out.torch = torch_;
    out.lists_parameters = !signature_.parameters.empty();
    for (size_t i = 0; i < built_.graph.values.size(); ++i) {
      const SourceValue& v = built_.graph.values[i];
      TensorRecord& r = out.of.emplace_back();
      if (v.kind != SourceKind::constant) continue;
      r.names = {v.name};
      int holder = static_cast<int>(i);
      for (auto of = built_.copies.find(holder); of != built_.copies.end(); of = built_.copies.find(holder))
        holder = of->second;
      const int slot = built_.slot_of[static_cast<size_t>(holder)];
      r.initializer = slot >= 0 && initializers_.count(slot);
      if (holder != static_cast<int>(i)) {
        // A copy that was created from an Identity keeps the name of that node. The importer generated the names of
        // other copies.
        const std::string& of_file = built_.graph.values[static_cast<size_t>(holder)].name;
        const auto aliases = merged_.find(of_file);
        const bool named =
            aliases != merged_.end() && std::count(aliases->second.begin(), aliases->second.end(), v.name);
        if (!named) r.names = {of_file};
      }
      if (!built_.visible[i]) continue;
      if (added_.count(v.name)) {
        r.kind = Recorded::buffer;
        continue;
      }
      if (const auto it = merged_.find(v.name); it != merged_.end()) {
        for (const std::string& alias : it->second) {
          if (built_.graph.find(alias) < 0) r.names.push_back(alias);  // otherwise it is a separate value
        }
      }
      if (out.lists_parameters) classify(r, v.data);
    }
    return out;
  }

 private:
  void find_initializers(onnx::ModelProto& model) {
    std::set<const void*> places;
    const std::function<void(const onnx::GraphProto&)> walk = [&](const onnx::GraphProto& g) {
      for (const auto& t : g.initializer()) places.insert(&t);
      for (const auto& n : g.node()) {
        for (const auto& a : n.attribute()) {
          if (a.has_g()) walk(a.g());
        }
      }
    };
    walk(model.graph());
    for_each_slot(model, [&](int number, Slot s) {
      if (places.count(s.tensor)) initializers_.insert(number);
    });
  }

  // Lists the Identity nodes that read an initializer, by initializer. An exporter that merges equal tensors writes
  // such a node for each name that it removes.
  void find_merged() {
    std::map<std::string, std::string> master;
    for (const auto& t : graph_.initializer()) master[t.name()] = t.name();
    for (const auto& n : graph_.node()) {
      if (n.op_type() != "Identity" || n.input_size() != 1 || n.output_size() != 1) continue;
      const auto it = master.find(n.input(0));
      if (it == master.end()) continue;
      const std::string holder = it->second;
      master[n.output(0)] = holder;
      merged_[holder].push_back(n.output(0));
    }
  }

  void classify(TensorRecord& r, const HostTensor& data) const {
    for (const std::string& name : r.names) {
      if (signature_.parameters.count(name)) {
        r.kind = Recorded::parameter;
        return;
      }
      if (signature_.buffers.count(name)) r.kind = Recorded::buffer;
    }
    if (r.kind == Recorded::buffer) return;
    const auto it = folded_.find(r.names[0]);
    if (it != folded_.end() && !(started_at_zero(it->second) && all_zero(data))) {
      for (const std::string& source : it->second) {
        if (!signature_.parameters.count(source)) continue;
        r.kind = Recorded::folded;
        r.from = source;
        return;
      }
    }
    if (it != folded_.end() && !it->second.empty()) {
      r.from_buffers = std::all_of(it->second.begin(), it->second.end(),
                                   [&](const std::string& s) { return signature_.buffers.count(s) != 0; });
    }
    // A tensor with a module path that the signature does not list stays Recorded::nothing. The exporter computed it
    // from parameters, as when it folds a BatchNormalization.
    if (r.names[0].find('.') == std::string::npos || it != folded_.end()) r.kind = Recorded::computed;
  }

  // True if one of the sources is a state that starts at zero. The product of a parameter and such a state is not a
  // folded weight.
  static bool started_at_zero(const std::vector<std::string>& sources) {
    return std::any_of(sources.begin(), sources.end(), [](const std::string& s) {
      return s.rfind("zeros", 0) == 0 || s.rfind("new_zeros", 0) == 0 || s.rfind("full", 0) == 0;
    });
  }
  static bool all_zero(const HostTensor& t) {
    if (!t || !is_float(t.dtype())) return false;
    const std::vector<double> all = t.to_doubles();
    return std::all_of(all.begin(), all.end(), [](double x) { return x == 0; });
  }

  const Built& built_;
  const onnx::GraphProto& graph_;
  Signature signature_;
  bool torch_ = false;
  std::map<std::string, std::vector<std::string>> folded_, merged_;
  std::set<int> initializers_;
  std::set<std::string> added_;  // initializers with kAddedConstant
};

}  // namespace

ExporterRecord read_exporter_record(const Built& built, const ModelDoc& doc) { return Reader(built, doc).read(); }

}  // namespace amp
