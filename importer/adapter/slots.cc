// Finds slots and names them. The names of new slots are those of onnxruntime-genai's model builder:
// MODULE.lora_A.MatMul.weight, where MODULE is the path of the map's node.
#include "importer/adapter/slots.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/cat.h"
#include "base/checksum.h"
#include "base/error.h"
#include "base/text.h"
#include "importer/read/tensor.h"

namespace amp {
namespace {

const SourceNode* producer(const SourceGraph& g, int v, const char* op) {
  if (v < 0 || g.value(v).producer < 0) return nullptr;
  const SourceNode& n = g.nodes[static_cast<size_t>(g.value(v).producer)];
  return n.domain.empty() && n.op == op && n.inputs.size() == 2 && n.outputs.size() == 1 ? &n : nullptr;
}

// Returns whether v is a stored matrix in which one dimension has the given extent and the other is 0.
bool is_empty_matrix(const SourceGraph& g, int v, size_t empty_axis) {
  const SourceValue& x = g.value(v);
  return x.producer < 0 && x.kind != SourceKind::input && x.data.rank() == 2 && x.data.dims()[empty_axis] == 0 &&
         x.data.dims()[1 - empty_axis] > 0;
}

struct Match {
  int sum = -1, output = -1;  // the values y + x A B and y
  int low = -1, up = -1, a = -1, b = -1;
};

// Matches Add(y, MatMul(MatMul(x, A), B)) where A has no columns and B no rows, and y = map(x, ...).
bool match_slot(const SourceGraph& g, const SourceNode& add, Match& m) {
  if (!add.domain.empty() || add.op != "Add" || add.inputs.size() != 2) return false;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const SourceNode* const up = producer(g, add.inputs[side], "MatMul");
    const SourceNode* const low = up ? producer(g, up->inputs[0], "MatMul") : nullptr;
    if (!low || !is_empty_matrix(g, low->inputs[1], 1) || !is_empty_matrix(g, up->inputs[1], 0)) continue;
    m = {add.outputs[0], add.inputs[1 - side], low->outputs[0], up->outputs[0], low->inputs[1], up->inputs[1]};
    const int map = g.value(m.output).producer;
    return map >= 0 && !g.nodes[static_cast<size_t>(map)].inputs.empty() &&
           g.nodes[static_cast<size_t>(map)].inputs[0] == low->inputs[0];
  }
  return false;
}

void drop_nodes(SourceGraph& g, const std::set<int>& outputs) {
  std::erase_if(g.nodes, [&](const SourceNode& n) { return !n.outputs.empty() && outputs.count(n.outputs[0]) > 0; });
  for (const int v : outputs) g.values[static_cast<size_t>(v)].producer = -1;
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    for (const int v : g.nodes[n].outputs) {
      if (v >= 0) g.values[static_cast<size_t>(v)].producer = static_cast<int>(n);
    }
  }
}

// Returns the module's name, as "model.layers.0.attn.o_proj" of node "/model/layers.0/attn/o_proj/MatMul_Q4". Nodes
// without a path, such as "MatMul_17", are named after their weight.
std::string module_name(const SourceNode& node, const LinearMap& map) {
  std::string name = node.name;
  const size_t slash = name.rfind('/');
  if (slash != std::string::npos && slash > 0) {
    name = name.substr(name[0] == '/', slash - (name[0] == '/'));
    std::replace(name.begin(), name.end(), '/', '.');
    return name;
  }
  name = map.name;
  for (const std::string_view end : {".weight", ".MatMul"}) {
    if (name.ends_with(end) && name.size() > end.size()) name.resize(name.size() - end.size());
  }
  return name;
}

}  // namespace

std::vector<FoundSlot> take_slots(SourceGraph& g) {
  std::vector<Match> matches;
  for (const SourceNode& n : g.nodes) {
    Match m;
    if (match_slot(g, n, m)) matches.push_back(m);
  }
  std::vector<FoundSlot> out;
  std::set<int> dropped;
  std::map<int, int> instead;  // value of y + x A B -> value of y
  for (const Match& m : matches) {
    out.push_back({m.output, g.value(m.a).name, g.value(m.b).name});
    // A graph output has the name of this sum. So this slot stays in the graph; it adds zero.
    if (std::find(g.outputs.begin(), g.outputs.end(), m.sum) == g.outputs.end()) {
      instead[m.sum] = m.output;
      dropped.insert({m.sum, m.low, m.up});
    }
    for (const int v : {m.a, m.b}) {
      SourceValue& x = g.values[static_cast<size_t>(v)];
      x.kind = SourceKind::constant;
      x.trainable = false;
      x.tied_to = -1;
      x.reason = "an empty slot for an adapter";
    }
  }
  for (SourceNode& n : g.nodes) {
    for (int& v : n.inputs) {
      if (const auto it = instead.find(v); it != instead.end()) v = it->second;
    }
  }
  drop_nodes(g, dropped);
  return out;
}

std::vector<AdapterSite> adapter_sites(const SourceGraph& g, const std::vector<FoundSlot>& found) {
  std::vector<AdapterSite> sites;
  std::set<std::string> taken;
  for (const SourceValue& v : g.values) taken.insert(v.name);
  for (const LinearMap& map : find_linear_maps(g)) {
    if (!map.is_product()) continue;
    AdapterSite site;
    site.map = map.name;
    site.weight = map.weight;
    const std::string stem = module_name(g.nodes[static_cast<size_t>(map.uses.front().node)], map);
    const auto name_of = [](const std::string& module, const char* which) {
      return cat(module, ".lora_", which, ".MatMul.weight");
    };
    site.module = stem;
    for (int k = 1; taken.count(name_of(site.module, "A")) || taken.count(name_of(site.module, "B")); ++k)
      site.module = cat(stem, "_", k);
    site.a = name_of(site.module, "A");
    site.b = name_of(site.module, "B");
    for (const LinearMap::Use& u : map.uses) {
      site.outputs.push_back(g.nodes[static_cast<size_t>(u.node)].outputs[0]);
      site.one_factor &= u.factor == map.uses.front().factor;
    }
    site.factor = map.uses.front().factor;
    for (const FoundSlot& slot : found) {
      if (slot.output != site.outputs.front()) continue;
      site.a = slot.a;
      site.b = slot.b;
      site.in_file = true;
    }
    taken.insert({site.a, site.b});
    site.in = map.in;
    site.out = map.out;
    site.type = map.type;
    site.parts = map.parts;
    site.role = map.role;
    sites.push_back(std::move(site));
  }
  return sites;
}

namespace {

constexpr uint32_t kChecksumMark = 1u << 30;  // marks a checksum; other programs store small version numbers here

}  // namespace

bool is_base_checksum(int32_t value) { return value >= static_cast<int32_t>(kChecksumMark); }

int32_t base_checksum(const SourceGraph& g, const std::vector<AdapterSite>& sites) {
  std::set<int> weights;
  for (const AdapterSite& s : sites) weights.insert(s.weight);
  uint32_t sum = 0;
  for (const int w : weights) {
    const HostTensor& data = g.value(w).data;
    Crc32c crc;
    crc.update(data.data(), data.bytes());
    sum += crc.value();
  }
  return static_cast<int32_t>(kChecksumMark | (sum & (kChecksumMark - 1)));
}

std::string slots_json(const std::vector<AdapterSite>& sites) {
  nlohmann::json out = nlohmann::json::array();
  for (const AdapterSite& s : sites) out.push_back({s.a, s.b, s.in, s.out, onnx_type_name(onnx_type_of(s.type))});
  return out.dump(1) + "\n";
}

}  // namespace amp
