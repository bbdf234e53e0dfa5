// Finds linear maps by their weights: MapFinder follows floating-point parameters, and the outputs of DequantizeLinear,
// through Transpose, Identity and Cast to the nodes that multiply by them. Maps with packed weights are single nodes,
// grouped by the constant that they read.
#include "importer/surgery/linear_maps.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/text.h"
#include "importer/read/tensor.h"

namespace amp {
namespace {

// A node that reads a weight, with the properties of this use.
struct WeightReader {
  MapKind kind = MapKind::product;  // product or table
  int node = -1;
  bool transposed = false;
  double factor = 1;
  DType type = DType::f32;
};

bool is_product_op(const SourceNode& n) {
  return (n.domain.empty() && (n.op == "MatMul" || n.op == "Gemm")) ||
         (n.domain == "com.microsoft" && n.op == "FusedMatMul");
}

// Returns true for names that exporters number: "onnx::MatMul_12", "val_3", "17".
bool is_numbered(const std::string& name) {
  return all_digits(name) || name.find("::") != std::string::npos || name.starts_with("val_");
}

// Removes what quantizers append to the name of a weight: "_Q4", "_Q4G32", "_quantized", ".qweight".
std::string without_quantizer(std::string name) {
  for (const char* end : {"_quantized", ".qweight", "_DequantizeLinear_Input"}) {
    if (name.ends_with(end)) name.resize(name.size() - std::string_view(end).size());
  }
  const size_t at = name.rfind("_Q");
  if (at == std::string::npos || at + 2 >= name.size()) return name;
  for (const std::string& part : split(name.substr(at + 2), 'G')) {
    if (!all_digits(part)) return name;
  }
  return name.substr(0, at);
}

// Returns "model.layers.0.mlp.down_proj" for a node "/model/layers.0/mlp/down_proj/MatMul_Q4".
std::string name_of_node(const SourceNode& n) {
  std::string name = without_quantizer(n.name);
  const size_t slash = name.rfind('/');
  if (slash != std::string::npos && slash > 0 && name.find(n.op.substr(0, 6), slash) == slash + 1) name.resize(slash);
  name.erase(0, name.find_first_not_of('/'));
  std::replace(name.begin(), name.end(), '/', '.');
  return name.empty() ? n.name : name;
}

class MapFinder {
 public:
  explicit MapFinder(const SourceGraph& g) : g_(g), consumers_(g.consumers()) {}

  std::vector<LinearMap> run() {
    for (size_t v = 0; v < g_.values.size(); ++v) {
      const SourceValue& x = g_.values[v];
      if (x.kind != SourceKind::parameter || !is_float(x.data.dtype())) continue;
      if (x.data.rank() == 2) parameter(static_cast<int>(v));
      if (x.data.rank() > 2) convolution(static_cast<int>(v));
    }
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      const SourceNode& node = g_.nodes[n];
      if (node.op == "DequantizeLinear") dequantized(node);
      if (node.domain != "com.microsoft") continue;
      if (node.op == "MatMulNBits" || node.op == "MatMulBnb4") packed(static_cast<int>(n));
      if (node.op == "GatherBlockQuantized") packed_table(static_cast<int>(n));
    }
    std::sort(maps_.begin(), maps_.end(), [](const LinearMap& a, const LinearMap& b) {
      return std::tie(a.uses.front().node, a.weight) < std::tie(b.uses.front().node, b.weight);
    });
    return std::move(maps_);
  }

 private:
  const SourceValue* stored(const SourceNode& n, size_t input) const {
    if (input >= n.inputs.size() || n.inputs[input] < 0) return nullptr;
    const SourceValue& v = g_.value(n.inputs[input]);
    return v.kind == SourceKind::constant || v.kind == SourceKind::parameter ? &v : nullptr;
  }

  // Appends the products and lookups that read v, directly or through Transpose, Identity and Cast, to `uses`. Returns
  // false if another node or a graph output reads v as well.
  bool follow(int v, bool transposed, DType type, std::vector<WeightReader>& uses) const {
    bool only = std::find(g_.outputs.begin(), g_.outputs.end(), v) == g_.outputs.end();
    for (const int c : consumers_[static_cast<size_t>(v)]) only &= read(c, v, transposed, type, uses);
    return only;
  }

  bool read(int c, int v, bool transposed, DType type, std::vector<WeightReader>& uses) const {
    const SourceNode& n = g_.nodes[static_cast<size_t>(c)];
    if (is_product_op(n)) {
      const bool plain =
          n.attrs.i("transA", 0) == 0 && n.attrs.i("transBatchA", 0) == 0 && n.attrs.i("transBatchB", 0) == 0;
      if (n.inputs.size() < 2 || n.inputs[1] != v || n.inputs[0] == v || !plain || n.outputs.size() != 1) return false;
      const double factor = n.op == "MatMul" ? 1.0 : static_cast<double>(n.attrs.f("alpha", 1));
      uses.push_back({MapKind::product, c, transposed != (n.attrs.i("transB", 0) != 0), factor, type});
      return true;
    }
    if (!n.domain.empty() || n.inputs.empty() || n.inputs[0] != v) return false;
    if (n.op == "Gather" && n.attrs.i("axis", 0) == 0 && n.inputs.size() == 2 && n.inputs[1] != v) {
      uses.push_back({MapKind::table, c, transposed, 1, type});
      return true;
    }
    if (n.op == "Transpose" && n.attrs.ints("perm", {1, 0}) == std::vector<int64_t>{1, 0})
      return follow(n.outputs.at(0), !transposed, type, uses);
    if (n.op == "Identity") return follow(n.outputs.at(0), transposed, type, uses);
    if (n.op != "Cast") return false;
    const auto to = dtype_of(static_cast<int>(n.attrs.i("to", 1)));
    return to && is_float(*to) && follow(n.outputs.at(0), transposed, *to, uses);
  }

  // Adds the products among `uses` as one map and the lookups as another. Uses in both orientations or in several types
  // do not form a map.
  void add(int weight, MapKind product, const std::string& name, const Dims& dims, bool mergeable,
           const std::vector<WeightReader>& uses) {
    for (const MapKind kind : {MapKind::product, MapKind::table}) {
      std::vector<WeightReader> mine;
      std::copy_if(uses.begin(), uses.end(), std::back_inserter(mine),
                   [&](const WeightReader& r) { return r.kind == kind; });
      const auto differs = [&](const WeightReader& r) {
        return r.transposed != mine.front().transposed || r.type != mine.front().type;
      };
      if (mine.empty() || std::any_of(mine.begin(), mine.end(), differs)) continue;
      const bool alone = mine.size() == uses.size();
      LinearMap m;
      m.kind = kind == MapKind::table ? kind : product;
      for (const WeightReader& r : mine) m.uses.push_back({r.node, r.factor});
      m.weight = weight;
      m.transposed = mine.front().transposed;
      m.type = mine.front().type;
      m.in = dims[m.transposed ? 1 : 0];
      m.out = dims[m.transposed ? 0 : 1];
      m.mergeable = mergeable && alone;
      const SourceNode& first = g_.nodes[static_cast<size_t>(mine.front().node)];
      m.name = (kind == MapKind::table && !alone) || is_numbered(name) ? name_of_node(first) : name;
      maps_.push_back(std::move(m));
    }
  }

  void parameter(int v) {
    const SourceValue& x = g_.value(v);
    std::vector<WeightReader> uses;
    const bool only = follow(v, false, x.data.dtype(), uses);
    const bool products =
        std::all_of(uses.begin(), uses.end(), [](const WeightReader& r) { return r.kind == MapKind::product; });
    // If other nodes share the weight of a product, the product is adapted only if these are lookups (a tied
    // embedding). A weight that is used in both directions, for example, is not adapted.
    if (!uses.empty() && (only || !products)) add(v, MapKind::product, g_.shown(v), x.data.dims(), only, uses);
  }

  void convolution(int v) {
    LinearMap m;
    m.kind = MapKind::convolution;
    m.mergeable = std::find(g_.outputs.begin(), g_.outputs.end(), v) == g_.outputs.end();
    for (const int c : consumers_[static_cast<size_t>(v)]) {
      const SourceNode& n = g_.nodes[static_cast<size_t>(c)];
      if (!n.domain.empty() || n.op != "Conv" || n.inputs[1] != v || n.attrs.i("group", 1) != 1) return;
      m.uses.push_back({c, 1});
    }
    if (m.uses.empty()) return;
    const SourceValue& x = g_.value(v);
    m.weight = v;
    m.transposed = true;
    m.type = x.data.dtype();
    m.out = x.data.dims()[0];
    m.in = m.out == 0 ? 0 : x.data.numel() / m.out;
    m.name = g_.shown(v);
    maps_.push_back(std::move(m));
  }

  // Handles a product or lookup that reads a DequantizeLinear. Its integers are stored or are computed by a
  // QuantizeLinear.
  void dequantized(const SourceNode& n) {
    if (n.inputs.size() < 2 || n.inputs[0] < 0 || n.inputs[1] < 0 || n.outputs.empty()) return;
    int v = n.inputs[0];
    while (g_.value(v).producer >= 0) {
      const SourceNode& p = g_.nodes[static_cast<size_t>(g_.value(v).producer)];
      if (p.inputs.empty() || p.inputs[0] < 0 || !one_of(p.op, {"QuantizeLinear", "Identity"})) return;
      v = p.inputs[0];
    }
    const SourceValue& x = g_.value(v);
    if (x.kind == SourceKind::input || x.data.rank() != 2) return;
    const SourceValue &y = g_.value(n.outputs[0]), &scale = g_.value(n.inputs[1]);
    std::vector<WeightReader> uses;
    follow(n.outputs[0], false, y.dtype_known ? y.dtype : scale.dtype, uses);
    if (!uses.empty()) add(v, MapKind::dequantized, without_quantizer(g_.shown(v)), x.data.dims(), false, uses);
  }

  // Adds a node to the map of the same weight, or adds a new map if there is none.
  void add_node(int node, LinearMap m) {
    for (LinearMap& have : maps_) {
      if (have.kind != m.kind || have.weight != m.weight || have.in != m.in || have.out != m.out) continue;
      const SourceNode& first = g_.nodes[static_cast<size_t>(have.uses.front().node)];
      if (first.inputs[2] != g_.nodes[static_cast<size_t>(node)].inputs[2]) continue;  // the scales differ
      have.uses.push_back({node, 1});
      return;
    }
    m.uses.push_back({node, 1});
    maps_.push_back(std::move(m));
  }

  void packed(int node) {
    const SourceNode& n = g_.nodes[static_cast<size_t>(node)];
    const SourceValue *weight = stored(n, 1), *scales = stored(n, 2);
    LinearMap m;
    m.kind = MapKind::packed;
    m.in = n.attrs.i("K", 0);
    m.out = n.attrs.i("N", 0);
    if (!weight || !scales || m.in < 1 || m.out < 1 || n.outputs.size() != 1) return;
    if (n.op == "MatMulBnb4" && n.attrs.i("transB", 1) == 0) std::swap(m.in, m.out);
    m.weight = n.inputs[1];
    m.type = is_float(scales->dtype) ? scales->dtype : DType::f32;  // FP8 scales belong to fp32 activations
    const std::string name = without_quantizer(g_.shown(m.weight));
    m.name = is_numbered(name) ? name_of_node(n) : name;
    add_node(node, std::move(m));
  }

  void packed_table(int node) {
    const SourceNode& n = g_.nodes[static_cast<size_t>(node)];
    const SourceValue* scales = stored(n, 2);
    if (!scales || scales->data.rank() != 2 || n.attrs.i("gather_axis", 0) != 0 || n.inputs[0] < 0) return;
    LinearMap m;
    m.kind = MapKind::table;
    m.weight = n.inputs[0];
    Dims dims = g_.value(m.weight).data ? g_.value(m.weight).data.dims() : Dims{};
    // A tied table is the packed weight of the output head, which a Reshape brings into the table's shape.
    if (const int p = g_.value(m.weight).producer; p >= 0) {
      const SourceNode& view = g_.nodes[static_cast<size_t>(p)];
      const SourceValue* shape = stored(view, 1);
      if (view.op != "Reshape" || !shape || !stored(view, 0)) return;
      dims = shape->data.to_ints();
      m.weight = view.inputs[0];
    }
    const int64_t bits = n.attrs.i("bits", 4), block = n.attrs.i("block_size", 128);
    if (dims.size() != 2 || bits < 1 || block < 1) return;
    const auto blocks = [&](int64_t columns) { return (columns + block - 1) / block; };
    m.in = scales->data.dims()[0];
    const int64_t unpacked = dims[1] * 8 / bits;
    m.out = blocks(unpacked) == scales->data.dims()[1] ? unpacked : dims[1];
    m.type = scales->data.dtype();
    m.name = name_of_node(n);
    add_node(node, std::move(m));
  }

  const SourceGraph& g_;
  const std::vector<std::vector<int>> consumers_;
  std::vector<LinearMap> maps_;
};

}  // namespace

std::vector<LinearMap> find_linear_maps(const SourceGraph& g) {
  std::vector<LinearMap> maps = MapFinder(g).run();
  assign_roles(g, maps);
  return maps;
}

}  // namespace amp
