// Attention problems with fully masked rows or large scores, and their gradients by plain loops in fp64. Operands are
// multiples of powers of two, so products are exact before the one rounding of the score.
#include "tests/ops/op_masked_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/ops/op_cases.h"

namespace amp::test {

namespace {

constexpr int64_t kBatch = 2, kHeads = 2, kQueries = 9, kKeys = 11, kWidth = 16;
constexpr double kLowest = -3.4028234663852886e38, kInf = std::numeric_limits<double>::infinity();

HostTensor multiples(const Dims& dims, double step, int64_t most, Rng& rng) {
  std::vector<double> v;
  for (int64_t i = 0; i < numel(dims); ++i)
    v.push_back(step * (std::floor(uniform01(rng) * static_cast<double>(2 * most + 1)) - static_cast<double>(most)));
  return HostTensor::of<double>(dims, v);
}

// Returns the scale of scores. If scores are tied (size other than 1), products need not be exact, so the scale may be
// 0.3.
double scale_of(const MaskedAttention& m) { return m.size == 1 ? 0.25 : 0.3; }

bool masked(const MaskedAttention& m, int64_t row, int64_t key) {
  return m.every_row || row % 2 == 1 || key == row % kKeys;
}
int64_t at(int64_t b, int64_t token, int64_t head, int64_t tokens) {
  return ((b * tokens + token) * kHeads + head) * kWidth;
}

// Makes all scores of each query equal: where the keys differ, the queries are 0.
void tie(AttentionOperandSet& o) {
  double *const q = o.q.as_mutable<double>(), *const k = o.k.as_mutable<double>();
  for (int64_t i = kWidth - 1; i < o.q.numel(); i += kWidth) q[i] = 0;
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t e = 0; e < kKeys * kHeads; ++e)
      std::copy_n(k + at(b, 0, e % kHeads, kKeys), kWidth - 1, k + at(b, e / kHeads, e % kHeads, kKeys));
  }
}

}  // namespace

const std::vector<MaskedAttention>& masked_attentions() {
  static const std::vector<MaskedAttention> all = [] {
    std::vector<MaskedAttention> out{{"no mask"},
                                     {"scores of 1e9", MaskKind::none, 0, false, false, 0x1p14},
                                     {"scores of 1e17", MaskKind::none, 0, false, false, 0x1p27}};
    for (const auto& [name, value] : {std::pair{"the least number", kLowest}, {"-1e9", -1e9}, {"-1e4", -1e4}}) {
      for (const bool every_row : {false, true}) {
        out.push_back({std::string(name) + " added", MaskKind::added, value, every_row});
        out.push_back({std::string(name) + " put in", MaskKind::boolean, value, every_row});
      }
    }
    for (const MaskKind kind : {MaskKind::added, MaskKind::boolean})
      out.push_back({"-inf, whose rows are zeros", kind, -kInf, false, true});
    out.push_back({"1e9 added", MaskKind::added, 1e9, true});
    out.push_back({"65504 added", MaskKind::added, 65504, true});
    out.push_back({"-30 added", MaskKind::added, -30, true});
    return out;
  }();
  return all;
}

AttentionOperandSet operands_of(const MaskedAttention& m) {
  Rng rng(7);
  AttentionOperandSet o;
  const Dims queries{kBatch, kQueries, kHeads, kWidth}, keys{kBatch, kKeys, kHeads, kWidth};
  o.q = multiples(queries, 0.25 * m.size, 4, rng);
  o.k = multiples(keys, 0.25 * m.size, 4, rng);
  o.v = multiples(keys, 0.125, 16, rng);
  o.dy = multiples(queries, 0.125, 16, rng);
  if (m.size != 1) tie(o);
  if (m.kind != MaskKind::none) {
    std::vector<double> v;
    for (int64_t i = 0; i < kQueries; ++i) {
      for (int64_t j = 0; j < kKeys; ++j)
        v.push_back(m.kind == MaskKind::boolean ? !masked(m, i, j) : masked(m, i, j) ? m.value : 0);
    }
    o.mask = HostTensor::of<double>({1, 1, kQueries, kKeys}, v);
    if (m.kind == MaskKind::boolean) o.mask = o.mask.cast(DType::boolean);
  }
  o.attrs = {{"scale", scale_of(m)}};
  if (m.kind == MaskKind::boolean) o.attrs.set("fill", m.value);
  if (m.zeros) o.attrs.set("empty_rows_zero", int64_t{1});
  return o;
}

AttentionGradients gradients_of(const MaskedAttention& m, const AttentionOperandSet& o, bool fp64) {
  const double *const q = o.q.as<double>(), *const k = o.k.as<double>(), *const v = o.v.as<double>(),
                      *const dy = o.dy.as<double>();
  const auto zeros = [](const HostTensor& t) { return std::vector<double>(static_cast<size_t>(t.numel()), 0.0); };
  AttentionGradients g{zeros(o.q), zeros(o.q), zeros(o.k), zeros(o.v)};
  const auto row = [&](int64_t b, int64_t n, int64_t i) {
    double p[kKeys], dp[kKeys], top = -kInf, sum = 0, d = 0;
    bool hidden[kKeys];
    const int64_t to = at(b, i, n, kQueries);
    for (int64_t j = 0; j < kKeys; ++j) {
      double z = 0;
      for (int64_t h = 0; h < kWidth; ++h) z += q[to + h] * k[at(b, j, n, kKeys) + h];
      z *= scale_of(m);
      hidden[j] = m.kind == MaskKind::boolean && masked(m, i, j);
      if (hidden[j]) z = m.value;
      if (m.kind == MaskKind::added && masked(m, i, j)) z += m.value;
      p[j] = fp64 ? z : static_cast<double>(static_cast<float>(z));
      top = std::max(top, p[j]);
    }
    if (top == -kInf) return;  // a fully masked row stays zero
    for (double& x : p) sum += x = std::exp(x - top);
    for (int64_t j = 0; j < kKeys; ++j) {
      p[j] /= sum;
      dp[j] = 0;
      for (int64_t h = 0; h < kWidth; ++h) {
        g.y[static_cast<size_t>(to + h)] += p[j] * v[at(b, j, n, kKeys) + h];
        g.dv[static_cast<size_t>(at(b, j, n, kKeys) + h)] += p[j] * dy[to + h];
        dp[j] += dy[to + h] * v[at(b, j, n, kKeys) + h];
      }
      d += p[j] * dp[j];
    }
    for (int64_t j = 0; j < kKeys; ++j) {
      const double ds = hidden[j] ? 0 : scale_of(m) * p[j] * (dp[j] - d);
      for (int64_t h = 0; h < kWidth; ++h) {
        g.dq[static_cast<size_t>(to + h)] += ds * k[at(b, j, n, kKeys) + h];
        g.dk[static_cast<size_t>(at(b, j, n, kKeys) + h)] += ds * q[to + h];
      }
    }
  };
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t n = 0; n < kHeads; ++n) {
      for (int64_t i = 0; i < kQueries; ++i) row(b, n, i);
    }
  }
  return g;
}

double relative_error(const HostTensor& got, const std::vector<double>& want) {
  const std::vector<double> x = got.to_doubles();
  double worst = 0, largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    worst = std::isnan(x[i]) ? kInf : std::max(worst, std::abs(x[i] - want[i]));
    largest = std::max(largest, std::abs(want[i]));
  }
  return worst == 0 ? 0 : worst / std::max(largest, 1e-30);
}

}  // namespace amp::test
