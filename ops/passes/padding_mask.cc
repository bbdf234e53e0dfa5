// Finds the input that marks tokens, and the attention masks that hide padding. A mask is proved correct by PlaceValues
// if possible. Otherwise it is evaluated for sequences of many lengths.
#include <algorithm>
#include <map>

#include "graph/op.h"
#include "ops/passes/hidden_score.h"
#include "ops/passes/padding.h"

namespace amp {

namespace {

// Evaluates values that depend on one input only, for a given content of the input.
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

// Returns the only input on which v depends, of any type, with dims (batch, length). Returns an invalid id if v depends
// on other inputs, parameters or random numbers.
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

// Returns whether the mask lets each token attend to exactly the tokens of its own sequence. v: the elements of the
// mask, of shape d = (1 or batch, heads, 1 or length, length). lengths: the number of tokens of each sequence.
// shown(element), hidden(element): whether the element allows or forbids attention.
template <class T, class Shown, class Hidden>
bool shows_sequences(const T* v, const Dims& d, const std::vector<int64_t>& lengths, Shown shown, Hidden hidden) {
  const int64_t length = d[3];
  for (size_t b = 0; b < lengths.size(); ++b) {
    for (int64_t h = 0; h < d[1]; ++h) {
      for (int64_t i = 0; i < (d[2] == 1 ? 1 : lengths[b]); ++i) {
        const T* row = v + (((d[0] == 1 ? 0 : static_cast<int64_t>(b)) * d[1] + h) * d[2] + i) * length;
        if (!std::all_of(row, row + lengths[b], shown) || !std::all_of(row + lengths[b], row + length, hidden))
          return false;
      }
    }
  }
  return true;
}
bool shows_sequences(const HostTensor& mask, double fill, const std::vector<int64_t>& lengths) {
  if (mask.dtype() == DType::boolean)
    return fill <= kHiddenScore &&
           shows_sequences(
               mask.as<bool>(), mask.dims(), lengths, [](bool keep) { return keep; }, [](bool keep) { return !keep; });
  return shows_sequences(
      mask.cast(DType::f32).as<float>(), mask.dims(), lengths, [](float x) { return x == 0; },
      [](float x) { return x <= static_cast<float>(kHiddenScore); });
}

struct Mask {
  ValueId value, source;
  double fill = kHiddenScore;
};

// Returns the attention masks that depend on one input (batch, length) and whose last dim is that length.
std::vector<Mask> candidates(const Graph& g) {
  std::vector<Mask> masks;
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    if (node.op->name != "FusedAttention" || node.in.size() < 4 || !node.in[3]) continue;
    const Mask m{node.in[3], only_source(g, node.in[3]), node.attrs.f("fill", kHiddenScore)};
    if (!m.source) continue;
    const int64_t batch = g.value(m.source).dims[0], length = g.value(m.source).dims[1];
    const Dims& d = g.value(m.value).dims;
    if (batch < 1 || length < 2 || (d[0] != 1 && d[0] != batch) || (d[2] != 1 && d[2] != length) || d[3] != length)
      continue;
    // If attentions with different fill values share a mask, keeps the fill value that hides fewer positions.
    const auto same = std::find_if(masks.begin(), masks.end(), [&](const Mask& x) { return x.value == m.value; });
    if (same == masks.end())
      masks.push_back(m);
    else
      same->fill = std::max(same->fill, m.fill);
  }
  return masks;
}

// Returns whether the mask is known to show all tokens and to hide all padded positions. keeps: the mask is boolean
// (true: visible).
bool proved(const PlaceValues& known, const Mask& m, bool keeps) {
  const PlaceValues::Known* k = known.at(m.value);
  if (!k || k->uniform || k->form.flat || k->form.axis != 3 || !k->real || !k->padded) return false;
  return keeps ? *k->real != 0 && *k->padded == 0 && m.fill <= kHiddenScore
               : *k->real == 0 && *k->padded <= kHiddenScore;
}

// Returns a length for each sequence of a batch, as different as possible; the first one is the full length. For a
// batch of one, returns length - 1.
std::vector<int64_t> example_lengths(int64_t batch, int64_t length) {
  if (batch == 1) return {length - 1};
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < batch; ++b) lengths.push_back(1 + (b * 37 + length - 1) % length);
  return lengths;
}

HostTensor content_of(const Value& input, const std::vector<int64_t>& lengths) {
  std::vector<double> content;
  for (const int64_t n : lengths) {
    for (int64_t s = 0; s < input.dims[1]; ++s) content.push_back(s < n ? 1 : 0);
  }
  return HostTensor::of<double>(input.dims, content).cast(input.dtype);
}

double fill_of(const std::vector<Mask>& masks, ValueId v) {
  return std::find_if(masks.begin(), masks.end(), [&](const Mask& m) { return m.value == v; })->fill;
}

}  // namespace

std::optional<PaddingMask> find_padding_mask(const Graph& g, const Evaluator& evaluator) {
  const std::vector<Mask> masks = candidates(g);
  for (const Mask& first : masks) {
    const Value& input = g.value(first.source);
    PaddingMask found{input.name, {input.dims[0], input.dims[1]}, {}, {}};
    const PlaceValues known(g, evaluator, found.places, {{first.source.index, {false, {}, 1.0, 0.0}}});
    const std::vector<int64_t> lengths = example_lengths(input.dims[0], input.dims[1]);
    Evaluation evaluation(g, evaluator, first.source, content_of(input, lengths));
    for (const Mask& m : masks) {
      if (m.source != first.source) continue;
      const bool sure = proved(known, m, g.value(m.value).dtype == DType::boolean);
      if (!sure && !shows_sequences(evaluation(m.value), m.fill, lengths)) continue;
      found.masks.push_back(m.value);
      if (!sure) found.tried.push_back(m.value);
    }
    if (!found.masks.empty()) return found;
  }
  return std::nullopt;
}

bool masks_hide(const Graph& g, const PaddingMask& mask, const Evaluator& evaluator, const HostTensor& content,
                const std::vector<int64_t>& lengths) {
  if (mask.tried.empty()) return true;
  const std::vector<Mask> masks = candidates(g);
  const ValueId input = g.input(mask.input);
  Evaluation evaluation(g, evaluator, input, content.cast(g.value(input).dtype));
  return std::all_of(mask.tried.begin(), mask.tried.end(),
                     [&](ValueId v) { return shows_sequences(evaluation(v), fill_of(masks, v), lengths); });
}

}  // namespace amp
