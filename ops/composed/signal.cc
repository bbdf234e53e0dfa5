// DFT (ONNX 17: axis is an attribute, 20: an input), STFT (17), MelWeightMatrix (17). The transform is a product with
// constant tables of cosines and sines; the product provides the gradients. Lengths for which these tables are too
// large are rejected.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/limits.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/compose.h"

namespace amp {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr int64_t kLargestTable = int64_t{1} << 23;

int64_t bins(int64_t n, bool onesided) { return onesided ? n / 2 + 1 : n; }

// Returns the DFT (..., bins, 2) of x (..., n, 1 or 2): X[k] = sum_t x[t] e^(-+ 2 pi i k t / n). The inverse is
// divided by n.
ValueId transform(const Lowering& l, ValueId x, bool inverse, bool onesided) {
  Builder& b = l.b;
  const Dims d = b.dims(x);
  const int64_t rank = static_cast<int64_t>(d.size()), n = d[d.size() - 2], k = bins(n, onesided);
  if (static_cast<double>(n) * static_cast<double>(k) > kLargestTable)
    l.unsupported(cat("a transform of ", n, " points"));
  std::vector<double> c(static_cast<size_t>(n * k)), s(c.size());
  for (int64_t t = 0; t < n; ++t) {
    for (int64_t j = 0; j < k; ++j) {
      const double angle = 2 * kPi * static_cast<double>(t * j % n) / static_cast<double>(n);
      const double scale = inverse ? 1 / static_cast<double>(n) : 1;
      c[static_cast<size_t>(t * k + j)] = scale * std::cos(angle);
      s[static_cast<size_t>(t * k + j)] = scale * (inverse ? std::sin(angle) : -std::sin(angle));
    }
  }
  const DType type = b.dtype(x);
  const ValueId cosines = b.constant(HostTensor::of<double>({n, k}, c).cast(type)),
                sines = b.constant(HostTensor::of<double>({n, k}, s).cast(type));
  const Dims line(d.begin(), d.end() - 1);
  const auto part = [&](int64_t i) {
    return b.reshape(slice(b, x, rank - 1, i, 1), line.size() > 1 ? line : Dims{1, n});
  };
  const auto product = [&](ValueId v, ValueId table) { return b.op("MatMul", {v, table}); };
  ValueId real = product(part(0), cosines), imaginary = product(part(0), sines);
  if (d.back() == 2) {
    real = sub(b, real, product(part(1), sines));
    imaginary = add(b, imaginary, product(part(1), cosines));
  }
  Dims out = line;
  out.back() = k;
  out.push_back(1);
  return concat(b, {b.reshape(real, out), b.reshape(imaginary, out)}, rank - 1);
}

// Returns n real numbers (..., n, 1) from half of their spectrum (..., n / 2 + 1, 2). Each bin counts twice, because
// the other half is its conjugate; the first bin and, for even n, the last bin count once.
ValueId inverse_of_half(const Lowering& l, ValueId x, int64_t n) {
  Builder& b = l.b;
  const Dims d = b.dims(x);
  const int64_t rank = static_cast<int64_t>(d.size()), k = d[d.size() - 2];
  if (static_cast<double>(n) * static_cast<double>(k) > kLargestTable)
    l.unsupported(cat("a transform of ", n, " points"));
  std::vector<double> c, s;
  for (int64_t j = 0; j < k; ++j) {
    const double weight = (j == 0 || 2 * j == n ? 1.0 : 2.0) / static_cast<double>(n);
    for (int64_t t = 0; t < n; ++t) {
      const double angle = 2 * kPi * static_cast<double>(t * j % n) / static_cast<double>(n);
      c.push_back(weight * std::cos(angle));
      s.push_back(-weight * std::sin(angle));
    }
  }
  const DType type = b.dtype(x);
  const auto product = [&](int64_t part, const std::vector<double>& table) {
    const ValueId v = b.reshape(slice(b, x, rank - 1, part, 1), Dims(d.begin(), d.end() - 1));
    return b.op("MatMul", {v, b.constant(HostTensor::of<double>({k, n}, table).cast(type))});
  };
  Dims out = d;
  out[d.size() - 2] = n;
  out.back() = 1;
  return b.reshape(add(b, product(0, c), product(1, s)), out);
}

// Returns the first n entries of an axis, with zeros appended if there are fewer.
ValueId resized(Builder& b, ValueId x, int64_t axis, int64_t n) {
  Dims d = b.dims(x);
  const int64_t have = d[static_cast<size_t>(axis)];
  if (n <= have) return slice(b, x, axis, 0, n);
  d[static_cast<size_t>(axis)] = n - have;
  return concat(b, {x, filled(b, 0, b.dtype(x), d)}, axis);
}

void lower_dft(Lowering& l) {
  Builder& b = l.b;
  const int64_t rank = l.rank(0);
  int64_t axis = l.version() < 20 ? l.attrs.i("axis", 1) : l.has(2) ? l.ints(2).at(0) : -2;
  axis = normalize_axis(axis, rank);
  const bool inverse = l.attrs.i("inverse", 0) != 0, onesided = l.attrs.i("onesided", 0) != 0;
  if (rank < 2 || axis == rank - 1 || l.dims(0).back() < 1 || l.dims(0).back() > 2)
    fail(Exit::model, "E_SHAPE", cat("DFT of ", to_string(l.dims(0)), " along axis ", axis));
  const bool half = inverse && onesided;
  if (half && (l.dims(0).back() != 2 || rank < 3)) fail(Exit::model, "E_SHAPE", "DFT: half a spectrum must be complex");
  ValueId x = l.in(0);
  const int64_t bins_in = l.dims(0)[static_cast<size_t>(axis)];
  const int64_t n = l.has(1) ? l.ints(1).at(0) : half ? 2 * (bins_in - 1) : bins_in;
  if (n < 1) fail(Exit::model, "E_ATTR", cat("DFT of length ", n));
  x = resized(b, x, axis, half ? n / 2 + 1 : n);
  std::vector<int64_t> swap(static_cast<size_t>(rank));
  for (size_t i = 0; i < swap.size(); ++i) swap[i] = static_cast<int64_t>(i);
  std::swap(swap[static_cast<size_t>(axis)], swap[static_cast<size_t>(rank - 2)]);
  x = b.transpose(x, swap);
  l.out(0, b.transpose(half ? inverse_of_half(l, x, n) : transform(l, x, inverse, onesided), swap));
}

// Lowers STFT: multiplies frames of the signal by the window and transforms them.
void lower_stft(Lowering& l) {
  Builder& b = l.b;
  Dims d = l.dims(0);
  if (d.size() == 2) d.push_back(1);
  if (d.size() != 3) fail(Exit::model, "E_SHAPE", cat("STFT of ", to_string(d), ": needs (batch, length, 1 or 2)"));
  const int64_t step = l.ints(1).at(0);
  const int64_t n = l.has(3) ? l.ints(3).at(0) : l.has(2) ? l.dims(2).at(0) : 0;
  if (step < 1 || n < 1 || n > d[1])
    fail(Exit::model, "E_ATTR", cat("STFT: frames of ", n, " every ", step, " over ", d[1], " samples"));
  const int64_t frames = (d[1] - n) / step + 1;
  require_constant("STFT", 8.0 * static_cast<double>(frames) * static_cast<double>(n));
  std::vector<int64_t> rows;
  for (int64_t f = 0; f < frames; ++f) {
    for (int64_t t = 0; t < n; ++t) rows.push_back(f * step + t);
  }
  const ValueId x = b.op("GatherRows", {b.reshape(l.in(0), d), b.constant(HostTensor::of<int64_t>({frames * n}, rows))},
                         {{"outer", d[0]}, {"n", d[1]}, {"inner", d[2]}, {"dims", Dims{d[0], frames * n, d[2]}}});
  ValueId framed = b.reshape(x, {d[0], frames, n, d[2]});
  if (l.has(2)) framed = mul(b, framed, b.reshape(l.in(2), {n, 1}));
  l.out(0, transform(l, framed, false, l.attrs.i("onesided", 1) != 0));
}

// Lowers MelWeightMatrix: triangular filters over frequency, whose corners are equally spaced on the mel scale.
void lower_mel(Lowering& l) {
  const int64_t n = l.ints(0).at(0), length = l.ints(1).at(0), rate = l.ints(2).at(0);
  const double low = l.constant(3).to_doubles().at(0), high = l.constant(4).to_doubles().at(0);
  if (n < 1 || length < 1 || rate < 1) fail(Exit::model, "E_ATTR", "MelWeightMatrix: counts must be positive");
  const int64_t bands = length / 2 + 1;
  require_constant("MelWeightMatrix", 8.0 * static_cast<double>(bands) * static_cast<double>(n));
  const auto mel = [](double f) { return 2595 * std::log10(1 + f / 700); };
  std::vector<int64_t> corner;
  for (int64_t i = 0; i < n + 2; ++i) {
    const double m = mel(low) + static_cast<double>(i) * (mel(high) - mel(low)) / static_cast<double>(n + 2);
    const double f = 700 * (std::pow(10, m / 2595) - 1);
    const double at = std::floor(static_cast<double>(length + 1) * f / static_cast<double>(rate));
    if (!(at >= 0 && at <= static_cast<double>(bands)))
      fail(Exit::model, "E_ATTR", "MelWeightMatrix: frequencies below 0 or above half the sample rate");
    corner.push_back(static_cast<int64_t>(at));
  }
  HostTensor out = HostTensor::zeros(DType::f64, {bands, n});
  const auto at = [&](int64_t band, int64_t i) -> double& {
    return out.as_mutable<double>()[std::min(band, bands - 1) * n + i];
  };
  for (int64_t i = 0; i < n; ++i) {
    const int64_t a = corner[static_cast<size_t>(i)], c = corner[static_cast<size_t>(i + 1)],
                  z = corner[static_cast<size_t>(i + 2)];
    if (a == c) at(c, i) = 1;
    for (int64_t j = a; a < c && j <= c; ++j) at(j, i) = static_cast<double>(j - a) / static_cast<double>(c - a);
    for (int64_t j = c; j < z; ++j) at(j, i) = static_cast<double>(z - j) / static_cast<double>(z - c);
  }
  l.out(0, l.b.constant(out.cast(l.float_type())));
}

const RegisterOnnx signal_onnx[] = {RegisterOnnx{{"DFT", lower_dft, 17, {}}},
                                    RegisterOnnx{{"STFT", lower_stft, 17, {}}},
                                    RegisterOnnx{{"MelWeightMatrix", lower_mel, 17, {}}}};

}  // namespace
}  // namespace amp
