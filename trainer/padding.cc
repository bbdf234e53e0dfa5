#include "trainer/padding.h"

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
  // Few different numbers of tokens, as each has a program of its own.
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

std::optional<Tensors> with_other_padding(const Tensors& batch, const std::string& mask,
                                          const std::vector<std::string>& except) {
  const HostTensor& m = batch.at(mask);
  const std::vector<double> there = m.to_doubles();
  const int64_t length = m.dims().at(1);
  Tensors other = batch;
  bool changed = false;
  for (auto& [name, t] : other) {
    if (name == mask || is_float(t.dtype()) || t.dims() != m.dims() ||
        std::count(except.begin(), except.end(), name) > 0)
      continue;
    std::vector<int64_t> v = t.to_ints();
    for (size_t i = 0; i < v.size(); ++i) {
      if (there[i] != 0) continue;
      const auto row = v.begin() + static_cast<int64_t>(i) / length * length;
      const auto differs = std::find_if(row, v.begin() + static_cast<int64_t>(i), [&](int64_t x) { return x != v[i]; });
      if (differs == v.begin() + static_cast<int64_t>(i)) continue;
      v[i] = *differs;
      changed = true;
    }
    t = HostTensor::of<int64_t>(t.dims(), v).cast(t.dtype());
  }
  if (!changed) return std::nullopt;
  return other;
}

}  // namespace amp
