// choose_token(): the logits processors of transformers (RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper,
// TopKLogitsWarper, TopPLogitsWarper) in the order of its generate(), then one draw from the remaining tokens.
#include "run/evaluate/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "trainer/metrics/metrics.h"

namespace amp {

namespace {

void penalize(std::vector<float>& logits, double penalty, std::span<const int32_t> before) {
  std::vector<int32_t> ids(before.begin(), before.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const int32_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) continue;
    float& x = logits[static_cast<size_t>(id)];
    x = static_cast<float>(x < 0 ? x * penalty : x / penalty);
  }
}

// Sets the weights of all but the `top_k` largest to 0.
void keep_largest(std::vector<double>& weights, int64_t top_k) {
  if (top_k <= 0 || top_k >= static_cast<int64_t>(weights.size())) return;
  std::vector<double> sorted = weights;
  std::nth_element(sorted.begin(), sorted.begin() + (top_k - 1), sorted.end(), std::greater<>());
  const double least = sorted[static_cast<size_t>(top_k - 1)];
  for (double& w : weights) w = w >= least ? w : 0;
}

// Sets weights to 0, beginning with the smallest, while the sum of the removed weights is at most 1 - top_p of the
// whole. The largest weight stays.
void keep_probable(std::vector<double>& weights, double top_p) {
  if (top_p >= 1) return;
  std::vector<size_t> order;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return weights[a] < weights[b]; });
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (size_t k = 0; k + 1 < order.size(); ++k) {
    sum += weights[order[k]];
    if (sum > (1 - top_p) * all) return;
    weights[order[k]] = 0;
  }
}

}  // namespace

int32_t choose_token(std::span<const float> given, const Sampling& how, uint64_t seed, uint64_t text, uint64_t place,
                     std::span<const int32_t> before) {
  std::vector<float> logits(given.begin(), given.end());
  if (how.repetition_penalty != 1) penalize(logits, how.repetition_penalty, before);
  const int64_t best = argmax_rows(logits.data(), 1, static_cast<int64_t>(logits.size()))[0];
  if (best < 0)
    fail(Exit::numerical, "E_NOT_FINITE", "a logit of the next token is NaN",
         "are the weights of a run that diverged?");
  if (!how.draw) return static_cast<int32_t>(best);
  const double top = logits[static_cast<size_t>(best)];
  std::vector<double> weights(logits.size());
  for (size_t i = 0; i < logits.size(); ++i)
    weights[i] = std::exp((static_cast<double>(logits[i]) - top) / how.temperature);
  keep_largest(weights, how.top_k);
  keep_probable(weights, how.top_p);
  std::vector<double> upto(weights.size());
  std::partial_sum(weights.begin(), weights.end(), upto.begin());
  const PhiloxBlock b = philox(seed, text, place);
  const double u = static_cast<double>((uint64_t{b.v[0]} << 32 | b.v[1]) >> 11) * 0x1p-53;
  const auto at = std::upper_bound(upto.begin(), upto.end(), u * upto.back());
  return static_cast<int32_t>(at == upto.end() ? best : at - upto.begin());
}

}  // namespace amp
