// Token packing: pack_tokens() derives the token indices and offsets from an attention mask. plan_padding() removes
// padding from a bucket's graph once, and packing_of() checks per batch that labels and masks permit it.

#include "trainer/compile/packing.h"

#include <algorithm>

namespace amp {

std::optional<Packing> pack_tokens(const HostTensor& mask) {
  if (mask.dims().size() != 2 || mask.numel() == 0) return std::nullopt;
  const int64_t batch = mask.dims()[0], length = mask.dims()[1], places = batch * length;
  const std::vector<double> there = mask.to_doubles();
  if (std::any_of(there.begin(), there.end(), [](double x) { return x != 0 && x != 1; })) return std::nullopt;
  std::vector<int64_t> tokens, padded, offsets{0};
  for (int64_t b = 0; b < batch; ++b) {
    int64_t n = 0;
    while (n < length && there[static_cast<size_t>(b * length + n)] != 0) ++n;
    for (int64_t s = 0; s < length; ++s) {
      if (s >= n && there[static_cast<size_t>(b * length + s)] != 0) return std::nullopt;
      (s < n ? tokens : padded).push_back(b * length + s);
    }
    if (n == 0) return std::nullopt;
    offsets.push_back(offsets.back() + n);
  }
  // Rounds the number of tokens of a batch up to one of about 32 sizes, because each number of tokens needs its own
  // Program.
  const int64_t step = std::max<int64_t>(8, (places / 32 + 7) / 8 * 8);
  Packing p;
  p.tokens = (static_cast<int64_t>(tokens.size()) + step - 1) / step * step;
  if (p.tokens * 20 > places * 19) return std::nullopt;
  for (size_t i = 0; static_cast<int64_t>(tokens.size()) < p.tokens; ++i) tokens.push_back(padded[i]);
  std::vector<int64_t> positions, samples;
  for (const int64_t t : tokens) {
    positions.push_back(t % length);
    samples.push_back(t / length);
  }
  p.inputs["padding.tokens"] = HostTensor::of<int64_t>({p.tokens}, tokens);
  p.inputs["padding.positions"] = HostTensor::of<int64_t>({p.tokens}, positions);
  p.inputs["padding.samples"] = HostTensor::of<int64_t>({p.tokens}, samples);
  p.inputs["padding.firsts"] = HostTensor::of<int64_t>({batch}, {offsets.begin(), offsets.end() - 1});
  p.inputs["padding.offsets"] = HostTensor::of<int64_t>({batch + 1}, offsets);
  return p;
}

namespace {

// Returns the names of the label tensors that have one label per token, each with the label that marks ignored
// positions (LossSpec::ignore_index()).
std::map<std::string, int64_t> token_labels(const Graph& g, const Losses& losses, TokenPlaces p) {
  std::map<std::string, int64_t> labels;
  for (const LossSpec& s : losses.parts) {
    const ValueId v = s.label_name().empty() ? ValueId{} : g.input(s.label_name());
    if (v && p.has_form(g.value(v).dims, TokenForm{})) labels.emplace(s.label_name(), s.ignore_index());
  }
  return labels;
}

// Returns whether all labels at padded positions equal x. Padded positions are those (sample, position) with position
// >= lengths[sample].
bool ignored_there(const HostTensor& label, int64_t x, const std::vector<int64_t>& lengths) {
  const std::vector<double> v = label.to_doubles();
  const int64_t length = label.dims().at(1), row = label.numel() / label.dims()[0], unit = row / length;
  for (size_t b = 0; b < lengths.size(); ++b) {
    const auto begin = v.begin() + static_cast<int64_t>(b) * row;
    if (std::any_of(begin + lengths[b] * unit, begin + row, [&](double y) { return y != static_cast<double>(x); }))
      return false;
  }
  return true;
}

}  // namespace

PaddingPlan plan_padding(std::shared_ptr<const Graph> graph, const Losses& losses, const Evaluator& evaluator) {
  PaddingPlan plan;
  const auto mask = find_padding_mask(*graph, evaluator);
  if (!mask) return plan;
  // The number of tokens is arbitrary, because this only tests whether padding can be removed.
  const int64_t tokens = std::max<int64_t>(1, mask->places.count() / 2);
  plan.mask = *mask;
  const auto try_with = [&](const std::map<std::string, int64_t>& ignored) {
    Unpadded u = remove_padding(*graph, *mask, tokens, ignored, evaluator);
    plan.seen_by = u.seen_by;
    plan.tokens = std::move(u.tokens);
  };
  try_with({});
  if (!plan.seen_by.empty()) {
    plan.ignored = token_labels(*graph, losses, mask->places);
    if (!plan.ignored.empty()) try_with(plan.ignored);
  }
  if (plan.seen_by.empty()) plan.graph = std::move(graph);
  return plan;
}

std::optional<Packing> packing_of(const PaddingPlan& plan, const Tensors& batch, const Evaluator& evaluator) {
  if (!plan.graph) return std::nullopt;
  const auto mask = batch.find(plan.mask.input);
  if (mask == batch.end()) return std::nullopt;
  std::optional<Packing> p = pack_tokens(mask->second);
  if (!p) return std::nullopt;
  const std::vector<int64_t> offsets = p->inputs.at("padding.offsets").to_ints();
  std::vector<int64_t> lengths;
  for (size_t b = 1; b < offsets.size(); ++b) lengths.push_back(offsets[b] - offsets[b - 1]);
  for (const auto& [label, value] : plan.ignored) {
    if (!ignored_there(batch.at(label), value, lengths)) return std::nullopt;
  }
  if (!masks_hide(*plan.graph, plan.mask, evaluator, mask->second, lengths)) return std::nullopt;
  return p;
}

}  // namespace amp
