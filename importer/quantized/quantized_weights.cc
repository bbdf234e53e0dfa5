// Replaces the integers that a DequantizeLinear reads by a floating-point master and a QuantizeLinear. DequantizeLinear
// nodes that read the same integers with the same scale share a master. Integer range and rounding (to nearest even)
// must equal those of the QuantizeLinear kernel, because the export must contain the integers of the last training
// step.
#include "importer/quantized/quantized_weights.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace amp {
namespace {

// Attribute of a master's QuantizeLinear: the file's integer tensor that the master replaces.
constexpr const char* kStandsFor = "stands_for";

const HostTensor* constant(const SourceGraph& g, const SourceNode& n, size_t input) {
  if (input >= n.inputs.size() || n.inputs[input] < 0) return nullptr;
  const SourceValue& v = g.values[static_cast<size_t>(n.inputs[input])];
  return v.kind == SourceKind::constant && v.data ? &v.data : nullptr;
}

bool quantizable(DType t) { return t == DType::i8 || t == DType::u8 || t == DType::i16 || t == DType::u16; }

std::pair<double, double> range_of(DType t) {
  switch (t) {
    case DType::i8:
      return {-128, 127};
    case DType::u8:
      return {0, 255};
    case DType::i16:
      return {-32768, 32767};
    default:
      return {0, 65535};
  }
}

// Maps the index of an element of x to the index of its scale and zero point. Scales may be per tensor, per axis or
// blocked (opset 21).
class ScaleIndex {
 public:
  // Returns nullopt if the shapes do not match. The operator's lowering reports this error.
  static std::optional<ScaleIndex> make(const Dims& x, const Dims& scale, const Attrs& a) {
    ScaleIndex s;
    if (numel(scale) == 1) return s;
    const auto rank = static_cast<int64_t>(x.size());
    const int64_t given = a.i("axis", 1), axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis >= rank) return std::nullopt;
    s.block_ = std::max<int64_t>(a.i("block_size", 0), 1);
    s.length_ = x[static_cast<size_t>(axis)];
    s.groups_ = (s.length_ + s.block_ - 1) / s.block_;
    s.inner_ = numel(Dims(x.begin() + axis + 1, x.end()));
    Dims whole = x;
    whole[static_cast<size_t>(axis)] = s.groups_;
    s.blocked_ = s.block_ > 1;
    if (s.length_ == 0 || s.inner_ == 0 || scale != (s.blocked_ ? whole : Dims{s.groups_})) return std::nullopt;
    return s;
  }
  int64_t operator()(int64_t i) const {
    if (groups_ == 0) return 0;
    const int64_t group = i / inner_ % length_ / block_;
    return blocked_ ? (i / inner_ / length_ * groups_ + group) * inner_ + i % inner_ : group;
  }

 private:
  int64_t length_ = 1, groups_ = 0, inner_ = 1, block_ = 1;
  bool blocked_ = false;
};

class Masters {
 public:
  explicit Masters(Built& built) : built_(built), g_(built.graph) {}

  void run() {
    std::vector<SourceNode> nodes;
    std::vector<std::string> scopes;
    std::map<int, int> node_of;  // integer tensor -> index of its QuantizeLinear in `nodes`
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      SourceNode n = std::move(g_.nodes[i]);
      if (n.op == "DequantizeLinear" && constant(g_, n, 0) && !is_float(constant(g_, n, 0)->dtype())) {
        const int x = n.inputs[0];
        const auto made = node_of.find(x);
        if (made == node_of.end()) {
          if (std::optional<SourceNode> q = quantizer(n)) {
            node_of[x] = static_cast<int>(nodes.size());
            n.inputs[0] = q->outputs[0];
            nodes.push_back(std::move(*q));
            scopes.push_back(built_.scopes[i]);
          }
        } else if (same_scale(nodes[static_cast<size_t>(made->second)], n)) {
          n.inputs[0] = nodes[static_cast<size_t>(made->second)].outputs[0];
        } else {
          ++left_;
        }
      }
      nodes.push_back(std::move(n));
      scopes.push_back(std::move(built_.scopes[i]));
    }
    g_.nodes = std::move(nodes);
    built_.scopes = std::move(scopes);
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      for (const int v : g_.nodes[i].outputs) {
        if (v >= 0) g_.values[static_cast<size_t>(v)].producer = static_cast<int>(i);
      }
    }
    if (!node_of.empty())
      built_.notes.push_back(cat(node_of.size(), " integer tensors have floating masters (`train_quantized`)"));
    if (left_ > 0)
      built_.notes.push_back(cat(
          left_, " dequantized integer tensors stay as they are (biases of 32 bits, weights of 4 bits, other types)"));
  }

 private:
  int add(std::string name, SourceKind kind, HostTensor data, DType t) {
    SourceValue v;
    v.name = g_.fresh_name(name);
    v.kind = kind;
    v.dtype = t;
    v.dtype_known = true;
    if (data) {
      v.rank_known = true;
      for (const int64_t d : data.dims()) v.dims.push_back({d, {}});
    }
    v.data = std::move(data);
    built_.slot_of.push_back(-1);
    built_.visible.push_back(0);
    return g_.add_value(std::move(v));
  }

  // True if n has the scale, the zero point, the axis and the block size of q. A missing zero point means zero.
  bool same_scale(const SourceNode& q, const SourceNode& n) const {
    const bool zero = n.inputs.size() > 2 && n.inputs[2] >= 0;
    return q.inputs[1] == n.inputs[1] && (zero ? q.inputs[2] == n.inputs[2] : q.attrs.has("no_zero_point")) &&
           q.attrs.i("axis", 1) == n.attrs.i("axis", 1) && q.attrs.i("block_size", 0) == n.attrs.i("block_size", 0);
  }

  std::optional<SourceNode> quantizer(const SourceNode& n) {
    const HostTensor x = *constant(g_, n, 0);
    const HostTensor* scale = constant(g_, n, 1);
    const bool has_zero = n.inputs.size() > 2 && n.inputs[2] >= 0;
    const HostTensor* zero = constant(g_, n, 2);
    const auto index = scale ? ScaleIndex::make(x.dims(), scale->dims(), n.attrs) : std::nullopt;
    if (built_.four_bits.count(x.data()) || !quantizable(x.dtype()) || !index ||
        (has_zero && (!zero || zero->dims() != scale->dims()))) {
      ++left_;
      return std::nullopt;
    }
    const std::vector<double> s = scale->to_doubles(), z = zero ? zero->to_doubles() : std::vector<double>(s.size(), 0);
    const std::vector<double> from = x.to_doubles();
    HostTensor master = HostTensor::empty(DType::f32, x.dims());
    for (int64_t i = 0; i < x.numel(); ++i) {
      const auto k = static_cast<size_t>((*index)(i));
      master.as_mutable<float>()[i] = static_cast<float>((from[static_cast<size_t>(i)] - z[k]) * s[k]);
    }
    const std::string name = g_.values[static_cast<size_t>(n.inputs[0])].name;
    SourceNode q;
    q.name = name + "/master_QuantizeLinear";
    q.op = "QuantizeLinear";
    q.domain = n.domain;
    q.version = n.version;
    q.place = Place::training;
    q.attrs.set(kStandsFor, int64_t{n.inputs[0]});
    if (n.attrs.has("axis")) q.attrs.set("axis", n.attrs.i("axis", 1));
    if (n.attrs.has("block_size")) q.attrs.set("block_size", n.attrs.i("block_size", 0));
    if (!has_zero) q.attrs.set("no_zero_point", int64_t{1});
    const int zero_point = has_zero ? n.inputs[2]
                                    : add(name + "/zero_point", SourceKind::constant,
                                          HostTensor::zeros(x.dtype(), scale->dims()), x.dtype());
    const int scale_value = n.inputs[1];
    const int made = add(name + "/master", SourceKind::constant, std::move(master), DType::f32);
    q.inputs = {made, scale_value, zero_point};
    q.outputs = {add(name + "/quantized", SourceKind::temp, {}, x.dtype())};
    return q;
  }

  Built& built_;
  SourceGraph& g_;
  int left_ = 0;
};

}  // namespace

void add_float_masters(Built& built) { Masters(built).run(); }

void quantize_masters(const SourceGraph& g, std::map<int, HostTensor>& values) {
  for (const SourceNode& n : g.nodes) {
    if (n.op != "QuantizeLinear" || !n.attrs.has(kStandsFor)) continue;
    const auto master = values.find(n.inputs[0]);
    if (master == values.end()) continue;
    const HostTensor x = master->second;
    values.erase(master);
    const HostTensor &scale = *constant(g, n, 1), &zero = *constant(g, n, 2);
    const auto index = ScaleIndex::make(x.dims(), scale.dims(), n.attrs);
    check(index.has_value(), "export: a scale of another shape");
    const HostTensor s = scale.cast(DType::f32);
    const std::vector<double> z = zero.to_doubles();
    const auto [low, high] = range_of(zero.dtype());
    std::vector<double> out(static_cast<size_t>(x.numel()));
    for (int64_t i = 0; i < x.numel(); ++i) {
      const int64_t k = (*index)(i);
      const double q = std::nearbyint(x.as<float>()[i] / s.as<float>()[k]) + z[static_cast<size_t>(k)];
      out[static_cast<size_t>(i)] = std::clamp(q, low, high);
    }
    values[static_cast<int>(n.attrs.i(kStandsFor, -1))] = HostTensor::of<double>(x.dims(), out).cast(zero.dtype());
  }
}

}  // namespace amp
