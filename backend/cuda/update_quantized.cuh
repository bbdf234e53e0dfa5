// Pass 2 of DeviceUpdate with moments in 8 bits (backend/quantized.h).
#pragma once

#include "backend/cuda/update_kernels.cuh"
#include "backend/quantized.h"

namespace amp::cuda::update_kernels {

static_assert(kThreads == kQuantizedBlock && kShard % kQuantizedBlock == 0);

// One quantized moment of all spans.
struct QuantizedSpans {
  const float* map;  // the number that each of the 256 codes means
  uint8_t* codes;
  float* largest;  // largest magnitude of each block of codes
  float* wide;     // elements of spans that are kept in fp32
  DEV float load(const QuantizedLayout::Place& p, int64_t e) const {
    if (p.wide >= 0) return wide[p.wide + e];
    return map[codes[p.codes + e]] * largest[p.blocks + e / kQuantizedBlock];
  }
  // Stores element e of a span. All threads of a CUDA block call it together, with one element each. counts: false for
  // a thread without an element.
  DEV void store(const QuantizedLayout::Place& p, int64_t e, bool counts, float x) const {
    if (p.wide >= 0) {
      if (counts) wide[p.wide + e] = x;
      return;
    }
    const float most = block_reduce(counts ? fabsf(x) : 0.0f, 0.0f, Maximum{}, shared_memory<float>());
    if (!counts) return;
    codes[p.codes + e] = code_of(map, x, most);
    if (e % kQuantizedBlock == 0) largest[p.blocks + e / kQuantizedBlock] = most;
  }
};

// Pass 2 (the weight update; see update_kernels.cuh) with 8-bit moments. A CUDA block updates one shard (a part of a
// tensor) at a time, kQuantizedBlock elements per iteration. Each thread updates one of them.
template <class Element>
struct ApplyQuantized {
  static constexpr bool cooperative = true;
  static_assert(Element::moments <= 2);
  Moves moves;
  Followers followers;
  const float* g;
  const QuantizedLayout::Place* places;  // one per span
  QuantizedSpans m, v;
  DEV void operator()() const {
    const UpdateState& state = *moves.state;
    if (state.found_inf) return;
    const bool lookahead_due = followers.lookahead_due(state);
    const RuleSettings settings = moves.settings.at(state);
    for (int64_t i = block_index(); i < moves.n_shards; i += grid_blocks()) {
      const Shard s = moves.shards[i];
      if (s.stays(state)) continue;
      const QuantizedLayout::Place place = places[s.span];
      const auto k = Element::template scalars<float>(settings, moves.template step<Element>(settings, s));
      for (int64_t from = 0; from < s.count; from += kQuantizedBlock) {
        const int64_t e = from + thread_index(), in_span = s.first + e;
        const bool counts = e < s.count;
        float first = 0, second = 0, none = 0;
        if (counts) {
          if constexpr (Element::moments > 0) first = m.load(place, in_span);
          if constexpr (Element::moments > 1) second = v.load(place, in_span);
          const auto read = followers.template read<1>(lookahead_due, s.begin + e);
          const float grad = transformed(g[s.begin + e], state.inverse, moves.clip(s), s.limit);
          float x[1] = {step_element<Element>(k, followers.p[s.begin + e], grad, first, second, none, 0.0f)};
          followers.settle(state, s, e, lookahead_due, read, x);
        }
        if constexpr (Element::moments > 0) m.store(place, in_span, counts, first);
        if constexpr (Element::moments > 1) v.store(place, in_span, counts, second);
      }
    }
  }
};

}  // namespace amp::cuda::update_kernels
