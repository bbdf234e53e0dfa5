// Merges adapters into the weights that they adapt, for export. Sums are computed in double. Adapters of one weight
// (the parts of a packed map) are merged one after the other, DoRA's column norms last.
#include <algorithm>
#include <cmath>
#include <map>

#include "importer/surgery/lora.h"
#include "importer/surgery/low_rank.h"

namespace amp {
namespace {

// Scales the adapter's columns of w to the lengths m.
HostTensor with_lengths(const HostTensor& w, bool transposed, const HostTensor& m, int64_t in, int64_t first) {
  HostTensor out = HostTensor::empty(DType::f32, w.dims());
  std::copy_n(w.as<float>(), w.numel(), out.as_mutable<float>());
  const int64_t width = w.numel() / std::max<int64_t>(in, 1);
  for (int64_t j = 0; j < m.numel(); ++j) {
    const auto at = [&](int64_t i) { return transposed ? (first + j) * in + i : i * width + first + j; };
    double square = 0;
    for (int64_t i = 0; i < in; ++i) square += static_cast<double>(w.as<float>()[at(i)]) * w.as<float>()[at(i)];
    const double gain = m.as<float>()[j] / std::sqrt(std::max(square, 1e-30));
    for (int64_t i = 0; i < in; ++i) out.as_mutable<float>()[at(i)] = static_cast<float>(w.as<float>()[at(i)] * gain);
  }
  return out;
}

// Returns w with one adapter added. Compared with a matrix product, a convolution stores its tensors transposed: A as
// [r, channels, kernel...], B as [out, r, 1...] and the weight as [out, channels, kernel...].
HostTensor adapted(const HostTensor& w, const LoraAdapter& l, const std::map<int, HostTensor>& values) {
  HostTensor a = values.at(l.a), b = values.at(l.b);
  if (l.kind == MapKind::convolution) {
    a = transposed_matrix(a.reshaped({l.rank, l.in}));
    b = transposed_matrix(b.reshaped({l.out, l.rank}));
  }
  const HostTensor sum = with_product(w, l.transposed, a, b, l.scale, l.first);
  return l.magnitude < 0 ? sum : with_lengths(sum, l.transposed, values.at(l.magnitude), l.in, l.first);
}

}  // namespace

std::vector<TrainedTensor> merge_lora(const SourceGraph& g, const std::vector<LoraAdapter>& adapters,
                                      std::vector<TrainedTensor> trained) {
  std::map<int, HostTensor> base;  // parameter -> its fp32 tensor before merging
  std::map<int, size_t> at;
  for (size_t i = 0; i < trained.size(); ++i) {
    at[trained[i].source_value] = i;
    base[trained[i].source_value] = trained[i].value;
  }
  const auto set = [&](int v, HostTensor t) {
    const auto it = at.find(v);
    if (it != at.end()) {
      trained[it->second].value = std::move(t);
    } else {
      at[v] = trained.size();
      trained.push_back({v, std::move(t)});
    }
  };
  const auto unmerged = [&](int v) {  // returns the value before merging, in the value's own layout
    const SourceValue& x = g.values[static_cast<size_t>(v)];
    const HostTensor master = base.at(x.tied_to < 0 ? v : x.tied_to);
    return x.tied_to >= 0 && x.tied_transposed ? transposed_matrix(master) : master;
  };
  std::map<int, HostTensor> merged;
  for (const LoraAdapter& l : adapters) {
    if (!l.merged) continue;
    const auto before = merged.find(l.weight);
    merged[l.weight] = adapted(before == merged.end() ? unmerged(l.weight) : before->second, l, base);
    // After merging, the weight differs from the tensors that were tied to it during training. So these are written
    // separately.
    for (size_t v = 0; v < g.values.size(); ++v) {
      if (g.values[v].kind == SourceKind::parameter && g.values[v].tied_to == l.weight)
        set(static_cast<int>(v), unmerged(static_cast<int>(v)));
    }
  }
  for (auto& [v, t] : merged) set(v, std::move(t));
  return trained;
}

}  // namespace amp
