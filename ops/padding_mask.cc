// Which input hides padded tokens from attention, and the proof.
#include <algorithm>
#include <map>

#include "graph/op.h"
#include "ops/padding.h"

namespace amp {

namespace {

constexpr double kHidden = -1000;  // added to a score, it leaves nothing of the key: e^-1000 is 0 in fp32

// A value that depends on one input alone, for given contents of it.
class Evaluation {
 public:
  Evaluation(const Graph& g, const Evaluator& evaluator, ValueId input, HostTensor content)
      : g_(g), evaluate_(evaluator) {
    known_[input.index] = std::move(content);
  }
  const HostTensor& operator()(ValueId v) {
    const auto found = known_.find(v.index);
    if (found != known_.end()) return found->second;
    const Value& x = g_.value(v);
    if (x.kind == ValueKind::constant) return known_[v.index] = x.constant;
    const Node& n = g_.node(x.producer);
    std::vector<HostTensor> in;
    std::vector<std::pair<DType, Dims>> outputs;
    for (const ValueId i : n.in) in.push_back(i ? (*this)(i) : HostTensor());
    for (const ValueId o : n.out) outputs.emplace_back(g_.value(o).dtype, g_.value(o).dims);
    const std::vector<HostTensor> out = evaluate_(*n.op, in, n.attrs, outputs);
    for (size_t i = 0; i < out.size(); ++i) known_[n.out[i].index] = out[i];
    return known_.at(v.index);
  }

 private:
  const Graph& g_;
  const Evaluator& evaluate_;
  std::map<int32_t, HostTensor> known_;
};

// The one input that v depends on: an integer, boolean or floating (batch, length); invalid when it depends on others,
// on parameters, or on what is drawn.
ValueId only_source(const Graph& g, ValueId v) {
  ValueId source;
  std::vector<ValueId> open{v};
  std::vector<bool> seen(static_cast<size_t>(g.n_values()), false);
  while (!open.empty()) {
    const ValueId at = open.back();
    open.pop_back();
    if (seen[static_cast<size_t>(at.index)]) continue;
    seen[static_cast<size_t>(at.index)] = true;
    const Value& x = g.value(at);
    if (x.kind == ValueKind::param) return {};
    if (x.kind == ValueKind::input) {
      if (source || x.dims.size() != 2) return {};
      source = at;
    }
    if (x.kind != ValueKind::temp) continue;
    const Node& n = g.node(x.producer);
    if (n.op->effect != Effect::pure) return {};
    for (const ValueId i : n.in) {
      if (i) open.push_back(i);
    }
  }
  return source;
}

// Whether a mask (1 or batch, 1 or heads, 1 or length, 1 or length) shows each token of a sequence the sequence, no
// more and no less.
bool shows_sequences(const HostTensor& mask, double fill, const std::vector<int64_t>& lengths, int64_t length) {
  const Dims& d = mask.dims();
  const std::vector<double> v = mask.dtype() == DType::boolean ? std::vector<double>{} : mask.to_doubles();
  const bool* keep = mask.dtype() == DType::boolean ? mask.as<bool>() : nullptr;
  if (keep && fill > kHidden) return false;
  for (size_t b = 0; b < lengths.size(); ++b) {
    for (int64_t h = 0; h < d[1]; ++h) {
      for (int64_t i = 0; i < lengths[b]; ++i) {
        for (int64_t j = 0; j < length; ++j) {
          const auto index = [&](size_t axis, int64_t at) { return d[axis] == 1 ? 0 : at; };
          const int64_t at = ((index(0, static_cast<int64_t>(b)) * d[1] + h) * d[2] + index(2, i)) * d[3] + index(3, j);
          const bool there = j < lengths[b];
          if (keep    ? keep[at] != there
              : there ? v[static_cast<size_t>(at)] != 0
                      : !(v[static_cast<size_t>(at)] <= kHidden))
            return false;
        }
      }
    }
  }
  return true;
}

}  // namespace

std::optional<PaddingMask> find_padding_mask(const Graph& g, const Evaluator& evaluator) {
  ValueId source;
  std::vector<std::pair<ValueId, double>> masks;
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    if (node.op->name != "FusedAttention" || node.in.size() < 4 || !node.in[3]) continue;
    const ValueId from = only_source(g, node.in[3]);
    if (!from || (source && from != source)) continue;
    source = from;
    if (std::none_of(masks.begin(), masks.end(), [&](const auto& m) { return m.first == node.in[3]; }))
      masks.emplace_back(node.in[3], node.attrs.f("fill", kHidden));
  }
  if (!source) return std::nullopt;
  const Value& input = g.value(source);
  const int64_t batch = input.dims[0], length = input.dims[1];
  if (batch < 1 || length < 2) return std::nullopt;
  std::vector<int64_t> lengths;
  std::vector<double> content;
  for (int64_t b = 0; b < batch; ++b) {
    lengths.push_back(1 + (b * 37 + length - 1) % length);  // the whole length, then others
    for (int64_t s = 0; s < length; ++s) content.push_back(s < lengths.back() ? 1 : 0);
  }
  if (batch == 1) {
    lengths = {length - 1};
    content.back() = 0;
  }
  Evaluation evaluation(g, evaluator, source, HostTensor::of<double>(input.dims, content).cast(input.dtype));
  for (const auto& [mask, fill] : masks) {
    if (!shows_sequences(evaluation(mask), fill, lengths, length)) return std::nullopt;
  }
  PaddingMask found{input.name, batch, length, {}};
  for (const auto& [mask, fill] : masks) found.masks.push_back(mask);
  return found;
}

}  // namespace amp
