// The kernels of DeviceUpdate (backend/update.h). Pass 1 inspects the gradients. One block then computes the scalars of
// the step. Pass 2 updates the weights. If the rule needs norms of tensors, they are computed before pass 2.
#pragma once

#include <cmath>

#include "backend/cuda/update_shards.cuh"

namespace amp::cuda::update_kernels {

// A partial result of the inspection: of one block (Inspect), one shard (InspectShards) or one statistic
// (InspectStatistics).
struct Part {
  double sum_squares;
  float most;   // largest magnitude
  int32_t bad;  // 1 if an element is not finite, otherwise 0
};

DEV bool finite(float x) { return x - x == 0.0f; }

struct ClearTerms {
  UpdateState* state;
  DEV void operator()(int64_t i) const { state->terms[i] = 0; }
};
struct Seed {
  const UpdateState* state;
  const double* coefficient;
  Ref input;
  DEV void operator()(int64_t) const { store(input, 0, static_cast<double>(state->scale.scale) * *coefficient); }
};
struct AddTerm {
  UpdateState* state;
  int term;
  Ref sum;
  DEV void operator()(int64_t) const { state->terms[term] += load<double>(sum, 0); }
};

// Pass 1. Computes the sum of squares of the unscaled gradients and the largest magnitude of the scaled gradients, and
// checks that all gradients are finite. The check tests every element, because the sum of squares may overflow although
// all elements are finite.
struct Inspect {
  static constexpr bool cooperative = true;
  static constexpr int kAhead = 4;  // 16-byte loads that a thread has in flight
  const UpdateState* state;
  const float* grads;
  int64_t elements;
  Part* parts;
  bool norm = true;  // false: only checks that all elements are finite
  DEV void operator()() const {
    const float inverse = static_cast<float>(1.0 / static_cast<double>(state->scale.scale));
    float sum = 0, most = 0;
    int bad = 0;
    const int64_t groups = elements / 4;  // spans are padded to 16 elements
    Ref r;
    r.data = const_cast<float*>(grads);
    const int64_t step = global_threads();
    for (int64_t g = global_index(); g < groups; g += kAhead * step) {
      Raw<float, 4> raw[kAhead];
      unrolled<kAhead>([&](auto j) {
        if (g + j * step < groups) raw[j] = fetch<float, 4>(r, 4 * (g + j * step));
      });
      unrolled<kAhead>([&](auto j) {
        if (g + j * step >= groups) return;
        float v[4];
        unpack(r, raw[j], v);
        for (int k = 0; k < 4; ++k) {
          const float x = v[k] * inverse;
          bad |= finite(v[k]) ? 0 : 1;
          sum += x * x;
          most = Maximum{}(most, fabsf(v[k]));
        }
      });
    }
    const double total = block_reduce(static_cast<double>(sum), 0.0, Sum{}, shared_memory<double>());
    most = block_reduce(most, 0.0f, Maximum{}, shared_memory<float>());
    bad = block_reduce(bad, 0, Maximum{}, shared_memory<int>());
    if (thread_index() == 0) parts[block_index()] = norm ? Part{total, most, bad} : Part{0, 0, bad};
  }
};

// Replaces the element rule in Decide if the optimizer is tensor-wise. Tensor-wise optimizers have no scalars per step.
struct NoElement {
  DEV static void begin_step(const RuleSettings&, int64_t, double (&)[kStepScalars]) {}
};

struct Rules {
  bool clip_norm, report_inf_norm;
  double max_grad_norm;
  SteppedSettings settings;
  ScaleRule scale;
  AverageRule averages[kMaxAverages];
  const double* lr;
  const double* momentum;  // null if no schedule cycles the momentum
  int64_t n_lr;            // number of elements of lr and momentum, which have one per applied step
};

// Computes all scalars of the step from the parts of the inspection, and the loss scale of the next step. Runs in one
// block.
template <class Element>
struct Decide {
  static constexpr bool cooperative = true;
  UpdateState* state;
  const Part* parts;
  int64_t n;
  Rules rules;
  DEV void operator()() const {
    double sum = 0;
    float most = 0;
    int bad = 0;
    for (int64_t i = thread_index(); i < n; i += block_threads()) {
      sum += parts[i].sum_squares;
      most = Maximum{}(most, parts[i].most);
      bad |= parts[i].bad;
    }
    sum = block_reduce(sum, 0.0, Sum{}, shared_memory<double>());
    most = block_reduce(most, 0.0f, Maximum{}, shared_memory<float>());
    bad = block_reduce(bad, 0, Maximum{}, shared_memory<int>());
    if (thread_index() != 0) return;
    UpdateState& s = *state;
    s.used_scale = s.scale.scale;
    s.inverse = static_cast<float>(1.0 / static_cast<double>(s.used_scale));
    // 1 / scale is infinite if the scale has fallen to 0.
    s.found_inf = bad != 0 || s.ascent_found_inf != 0 || !finite(s.inverse) ? 1 : 0;
    s.ascent_found_inf = 0;
    s.norm =
        rules.report_inf_norm && !s.found_inf ? static_cast<double>(most) * static_cast<double>(s.inverse) : sqrt(sum);
    s.clip = 1;
    if (rules.clip_norm) s.clip = clip_coefficient<float>(s.norm, rules.max_grad_norm);
    const int64_t at = s.applied < rules.n_lr ? s.applied : rules.n_lr - 1;
    s.lr = rules.lr[at] * s.lr_scale;
    if (rules.momentum) s.momentum = rules.momentum[at];
    if (!s.found_inf) {
      ++s.applied;
      begin_rule_step<Element>(rules.settings.at(s), s.applied, s.lr, s.step_scalars);
      for (int k = 0; k < kMaxAverages; ++k) s.keeps[k] = static_cast<float>(rules.averages[k].keeps(s.applied));
    }
    step_scale(rules.scale, s.scale, s.found_inf != 0);
  }
};

// Computes the sums of squares of each shard before pass 2, for a rule that needs norms of tensors.
template <class Element>
struct Measure {
  static constexpr bool cooperative = true;
  Moves moves;
  const float* p;
  const float* g;
  const float* m;
  const float* v;
  NormTerms<double>* parts;  // one per shard
  DEV void operator()() const {
    const RuleSettings settings = moves.settings.at(*moves.state);
    for (int64_t i = block_index(); i < moves.n_shards; i += grid_blocks()) {
      const Shard s = moves.shards[i];
      const auto k = Element::template scalars<float>(settings, moves.template step<Element>(settings, s));
      const float inverse = moves.state->inverse, clip = moves.clip(s);
      float first = 0, second = 0;
      for (int64_t e = thread_index(); e < s.count; e += block_threads()) {
        const int64_t j = s.begin + e;
        const NormTerms<float> terms =
            Element::template norm_terms<float>(k, p[j], transformed(g[j], inverse, clip, s.limit),
                                                Element::moments > 0 ? m[j] : 0.0f, Element::moments > 1 ? v[j] : 0.0f);
        first += terms.first * terms.first;
        second += terms.second * terms.second;
      }
      NormTerms<double> sum{0, 0};
      sum.first = block_reduce(static_cast<double>(first), 0.0, Sum{}, shared_memory<double>());
      sum.second = block_reduce(static_cast<double>(second), 0.0, Sum{}, shared_memory<double>());
      if (thread_index() == 0) parts[i] = sum;
    }
  }
};

// Computes the norms of each span from the sums of the span's shards. One block computes one span.
struct SpanNorms {
  static constexpr bool cooperative = true;
  const NormTerms<double>* parts;
  const int64_t* first_shard;  // index of each span's first shard, then the number of shards
  NormTerms<double>* norms;
  DEV void operator()() const {
    const int64_t span = block_index();
    NormTerms<double> sum{0, 0};
    for (int64_t i = first_shard[span] + thread_index(); i < first_shard[span + 1]; i += block_threads()) {
      sum.first += parts[i].first;
      sum.second += parts[i].second;
    }
    sum.first = block_reduce(sum.first, 0.0, Sum{}, shared_memory<double>());
    sum.second = block_reduce(sum.second, 0.0, Sum{}, shared_memory<double>());
    if (thread_index() == 0) norms[span] = {sqrt(sum.first), sqrt(sum.second)};
  }
};

DEV Ref floats(const float* data) {
  Ref r;
  r.data = const_cast<float*>(data);
  return r;
}

// Finishes elements that the rule has updated: applies Lookahead, stores the weights, and updates averages and 16-bit
// copies.
struct Followers {
  float* p;
  float* averages;  // (n_averages, elements)
  float* slow;      // Lookahead's slow weights; null: no Lookahead
  int64_t elements;
  int n_averages;
  float alpha;
  int64_t lookahead;

  template <int W>
  struct Read {
    float average[W] = {}, behind[W] = {};
  };
  DEV bool lookahead_due(const UpdateState& s) const { return slow && s.applied % lookahead == 0; }
  // Reads the values that settle() needs. It is called before the rule's arithmetic, so that the arithmetic hides the
  // latency of the loads.
  template <int W>
  DEV Read<W> read(bool lookahead_due, int64_t at) const {
    Read<W> r;
    if (n_averages > 0) load_some(floats(averages), at, r.average);
    if (lookahead_due) load_some(floats(slow), at, r.behind);
    return r;
  }
  // Finishes W elements from element e of the shard on. x: the values that the rule has computed for them.
  template <int W>
  DEV void settle(const UpdateState& state, const Shard& s, int64_t e, bool lookahead_due, Read<W> r,
                  float (&x)[W]) const {
    const int64_t at = s.begin + e;
    if (lookahead_due) {
      unrolled<W>([&](auto w) { x[w] = r.behind[w] = r.behind[w] + alpha * (x[w] - r.behind[w]); });
      store_some(floats(slow), at, r.behind);
    }
    store_some(floats(p), at, x);
    for (int k = 0; k < n_averages; ++k) {
      const float keep = state.keeps[k], rest = 1 - keep;
      if (k > 0) load_some(floats(averages), k * elements + at, r.average);
      unrolled<W>([&](auto w) { r.average[w] = keep * r.average[w] + rest * x[w]; });
      store_some(floats(averages), k * elements + at, r.average);
    }
    for (int j = 0; j < kKept; ++j) {
      if (s.copy[j].to) s.copy[j].put(e, x);
    }
  }
};

// Runs Followers after a tensor-wise optimizer has updated the weights.
struct Follow {
  Moves moves;
  Followers followers;
  DEV void operator()() const {
    const UpdateState& state = *moves.state;
    if (state.found_inf) return;
    const bool lookahead_due = followers.lookahead_due(state);
    for (int64_t i = block_index(); i < moves.n_shards; i += grid_blocks()) {
      const Shard s = moves.shards[i];
      if (s.stays(state)) continue;
      for (int64_t e = thread_index(); e < s.count; e += block_threads()) {
        float x[1] = {followers.p[s.begin + e]};
        followers.settle(state, s, e, lookahead_due, followers.template read<1>(lookahead_due, s.begin + e), x);
      }
    }
  }
};

// Pass 2: updates weights, moments, averages and copies in one pass over memory. A block takes a shard at a time.
template <class Element>
struct Apply {
  static constexpr int max_threads = kThreads;
  Moves moves;
  Followers followers;
  const float* g;
  float* m;
  float* v;
  float* u;
  const float* h;                  // estimate of the Hessian's diagonal, if the rule needs it
  const NormTerms<double>* norms;  // one per span; used if the rule needs norms
  DEV void operator()() const {
    const UpdateState& state = *moves.state;
    if (state.found_inf) return;
    const bool lookahead_due = followers.lookahead_due(state);
    const RuleSettings settings = moves.settings.at(state);
    for (int64_t i = block_index(); i < moves.n_shards; i += grid_blocks()) {
      const Shard& s = moves.shards[i];  // a reference, because a copy's array would be placed in local memory
      if (s.stays(state)) continue;
      RuleStep step = moves.template step<Element>(settings, s);
      if constexpr (kNeedsNorms<Element>) {
        step.norms[0] = norms[s.span].first;
        step.norms[1] = norms[s.span].second;
      }
      const auto k = Element::template scalars<float>(settings, step);
      const float inverse = state.inverse, clip = moves.clip(s);
      // Updates `width` elements from e on. Shards and copies begin at multiples of four, so four elements are updated
      // at a time. The remaining elements of a shard are updated singly.
      const auto some = [&](auto width, int64_t e) {
        constexpr int W = decltype(width)::value;
        float grad[W], x[W], first[W] = {}, second[W] = {}, third[W] = {}, diagonal[W] = {};
        const int64_t at = s.begin + e;
        load_some(floats(g), at, grad);
        load_some(floats(followers.p), at, x);
        if constexpr (Element::moments > 0) load_some(floats(m), at, first);
        if constexpr (Element::moments > 1) load_some(floats(v), at, second);
        if constexpr (Element::moments > 2) load_some(floats(u), at, third);
        const auto read = followers.template read<W>(lookahead_due, at);
        if constexpr (kNeedsHessianDiagonal<Element>) load_some(floats(h), at, diagonal);
        unrolled<W>([&](auto w) {
          const float g = transformed(grad[w], inverse, clip, s.limit);
          x[w] = step_element<Element>(k, x[w], g, first[w], second[w], third[w], diagonal[w]);
        });
        if constexpr (Element::moments > 0) store_some(floats(m), at, first);
        if constexpr (Element::moments > 1) store_some(floats(v), at, second);
        if constexpr (Element::moments > 2) store_some(floats(u), at, third);
        followers.settle(state, s, e, lookahead_due, read, x);
      };
      const int32_t whole = s.count / 4 * 4;
      for (int64_t e = 4 * int64_t{thread_index()}; e < whole; e += 4 * block_threads())
        some(std::integral_constant<int, 4>{}, e);
      for (int64_t e = whole + thread_index(); e < s.count; e += block_threads())
        some(std::integral_constant<int, 1>{}, e);
    }
  }
};

// Writes the step's report to host memory. Then writes the number of reports, by which the host detects the new report.
struct Report {
  const UpdateState* state;
  UpdateState* ring;
  int64_t* counts;         // number of reports so far, in device memory
  volatile int64_t* seen;  // the same number in host memory
  int64_t size;
  const int64_t* index_flag;
  DEV void operator()(int64_t) const {
    const int64_t k = counts[0];
    ring[k % size] = *state;
    ring[k % size].index_flag = *index_flag;
#ifdef __CUDA_ARCH__
    __threadfence_system();
#endif
    counts[0] = k + 1;
    *seen = k + 1;
  }
};

}  // namespace amp::cuda::update_kernels
