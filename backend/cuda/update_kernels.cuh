// The kernels of the device's update (backend/update.h): two passes over the gradients' span and one block that decides
// between them; norms of tensors in between for the rules that need them.
#pragma once

#include <cmath>

#include "backend/cuda/launch.cuh"
#include "backend/cuda/raw.cuh"
#include "backend/update.h"

namespace amp::cuda::update_kernels {

constexpr int kThreads = 256;
constexpr int64_t kShard = 4096;  // elements that a block updates at a time: 16 a thread

// What inspection blocks found.
struct Part {
  double sum_squares;
  float most;
  int32_t bad;
};

// Where a parameter, or a part of it, is kept in 16 bits.
struct Kept {
  Ref to;
  int64_t first = 0;           // the part's first element
  int64_t row = 0, pitch = 0;  // elements that lie close, and from one such row to the next; 0: all lie close
  bool fours = true;           // groups of four lie close and aligned

  Kept() = default;
  explicit Kept(const ParamCache::Copy& c) : to(c.tensor), row(c.row), pitch(c.pitch) {
    const auto address = reinterpret_cast<uintptr_t>(c.tensor.data);
    fours = row % 4 == 0 && pitch % 4 == 0 && address % static_cast<uintptr_t>(4 * size_of(c.tensor.dtype)) == 0;
  }
  // W elements from the part's element e on.
  template <int W>
  DEV void put(int64_t e, const float (&v)[W]) const {
    if (row == 0) return store_some(to, first + e, v);
    if constexpr (W > 1) {
      if (!fours) {
        for (int w = 0; w < W; ++w) store(to, place(first + e + w), v[w]);
        return;
      }
    }
    store_some(to, place(first + e), v);
  }

 private:
  DEV int64_t place(int64_t i) const {
    const int64_t r = quotient(i, row);
    return r * pitch + i - r * row;
  }
};
constexpr int kKept = 3;  // in 16 bits, and joined to others in up to two ways

struct Shard {
  int64_t begin = 0;
  int32_t count = 0, span = 0;
  double weight_decay = 0, lr_factor = 1;
  Kept copy[kKept];
};

struct Statistic {
  float* committed;
  const float* staged;
  int64_t count;
  Kept copy[kKept];
};

DEV bool finite(float x) { return x - x == 0.0f; }

// A gradient as the rule takes it: unscaled, clipped by norm, its magnitude at most `limit`.
DEV float transformed(float g, float inverse, float clip, float limit) {
  g = g * inverse * clip;
  g = g > limit ? limit : g;
  return g < -limit ? -limit : g;
}

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

// Pass 1: sums of squares of the unscaled gradients, the largest magnitude, whether all are finite. The finite check is
// of the elements, not of the sum, which overflows earlier.
struct Inspect {
  static constexpr bool cooperative = true;
  static constexpr int kAhead = 4;  // loads of 16 bytes that a thread has under way
  const UpdateState* state;
  const float* grads;
  int64_t elements;
  Part* parts;
  bool norm = true;  // false: whether all are finite, and no more
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

// One block a statistic.
struct InspectStatistics {
  static constexpr bool cooperative = true;
  const Statistic* statistics;
  Part* parts;
  DEV void operator()() const {
    const Statistic s = statistics[block_index()];
    int bad = 0;
    for (int64_t i = thread_index(); i < s.count; i += block_threads()) bad |= finite(s.staged[i]) ? 0 : 1;
    bad = block_reduce(bad, 0, Maximum{}, shared_memory<int>());
    if (thread_index() == 0) parts[block_index()] = Part{0, 0, bad};
  }
};

struct Rules {
  bool clip_norm, report_inf_norm;
  double max_grad_norm;
  RuleSettings settings;
  ScaleRule scale;
  const double* lr;
  int64_t n_lr;
};

// One block: from the parts to every scalar of the step, then the state of the next one.
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
    // a scale that fell to 0: what it leaves cannot be scaled back
    s.found_inf = bad != 0 || s.ascent_found_inf != 0 || !finite(s.inverse) ? 1 : 0;
    s.ascent_found_inf = 0;
    s.norm =
        rules.report_inf_norm && !s.found_inf ? static_cast<double>(most) * static_cast<double>(s.inverse) : sqrt(sum);
    s.clip = 1;
    if (rules.clip_norm) s.clip = clip_coefficient<float>(s.norm, rules.max_grad_norm);
    s.lr = rules.lr[s.applied < rules.n_lr ? s.applied : rules.n_lr - 1] * s.lr_scale;
    if (!s.found_inf) {
      ++s.applied;
      rule_once<Element>(rules.settings, s.applied, s.lr, s.facts);
    }
    step_scale(rules.scale, s.scale, s.found_inf != 0);
  }
};

// Before pass 2, for a rule that needs norms of tensors: the sums of squares of a shard, then of the spans.
template <class Element>
struct Measure {
  static constexpr bool cooperative = true;
  const UpdateState* state;
  const Shard* shards;
  int64_t n_shards;
  RuleSettings settings;
  float limit;
  const float* p;
  const float* g;
  const float* m;
  const float* v;
  RuleTerms<double>* parts;  // per shard
  DEV void operator()() const {
    RuleStep step;
    for (int k = 0; k < kRuleFacts; ++k) step.facts[k] = state->facts[k];
    for (int64_t i = block_index(); i < n_shards; i += grid_blocks()) {
      const Shard s = shards[i];
      step.lr = state->lr * s.lr_factor;
      step.decay = s.weight_decay;
      const auto k = Element::template scalars<float>(settings, step);
      const float inverse = state->inverse, clip = state->clip;
      float first = 0, second = 0;
      for (int64_t e = thread_index(); e < s.count; e += block_threads()) {
        const int64_t j = s.begin + e;
        const RuleTerms<float> terms =
            Element::template measure<float>(k, p[j], transformed(g[j], inverse, clip, limit),
                                             Element::moments > 0 ? m[j] : 0.0f, Element::moments > 1 ? v[j] : 0.0f);
        first += terms.first * terms.first;
        second += terms.second * terms.second;
      }
      RuleTerms<double> sum{0, 0};
      sum.first = block_reduce(static_cast<double>(first), 0.0, Sum{}, shared_memory<double>());
      sum.second = block_reduce(static_cast<double>(second), 0.0, Sum{}, shared_memory<double>());
      if (thread_index() == 0) parts[i] = sum;
    }
  }
};

// One block a span, its shards side by side.
struct SpanNorms {
  static constexpr bool cooperative = true;
  const RuleTerms<double>* parts;
  const int64_t* first_shard;  // of each span, and the number of all
  RuleTerms<double>* norms;
  DEV void operator()() const {
    const int64_t span = block_index();
    RuleTerms<double> sum{0, 0};
    for (int64_t i = first_shard[span] + thread_index(); i < first_shard[span + 1]; i += block_threads()) {
      sum.first += parts[i].first;
      sum.second += parts[i].second;
    }
    sum.first = block_reduce(sum.first, 0.0, Sum{}, shared_memory<double>());
    sum.second = block_reduce(sum.second, 0.0, Sum{}, shared_memory<double>());
    if (thread_index() == 0) norms[span] = {sqrt(sum.first), sqrt(sum.second)};
  }
};

// Pass 2: everything that changes, once through memory. A block takes a shard at a time.
template <class Element>
struct Apply {
  const UpdateState* state;
  const Shard* shards;
  int64_t n_shards;
  RuleSettings settings;
  float limit, ema_decay;  // limit: of an element, infinity for none
  float* p;
  const float* g;
  float* m;
  float* v;
  float* u;
  float* ema;
  float* slow;  // Lookahead's, which take so much of the way every so many steps
  int64_t lookahead;
  float alpha;
  const float* h;                  // the estimate of the Hessian's diagonal, where the rule needs it
  const RuleTerms<double>* norms;  // per span, where the rule measures
  DEV void operator()() const {
    if (state->found_inf) return;
    const bool looks = slow && state->applied % lookahead == 0;
    RuleStep step;
    for (int k = 0; k < kRuleFacts; ++k) step.facts[k] = state->facts[k];
    for (int64_t i = block_index(); i < n_shards; i += grid_blocks()) {
      const Shard s = shards[i];
      step.lr = state->lr * s.lr_factor;
      step.decay = s.weight_decay;
      if constexpr (kMeasures<Element>) {
        step.norms[0] = norms[s.span].first;
        step.norms[1] = norms[s.span].second;
      }
      const auto k = Element::template scalars<float>(settings, step);
      const float inverse = state->inverse, clip = state->clip;
      // Four at a time: shards and copies begin at multiples of four elements; what is left of a tensor goes singly.
      const auto some = [&](auto width, int64_t e) {
        constexpr int W = decltype(width)::value;
        float grad[W], x[W], first[W] = {}, second[W] = {}, third[W] = {}, average[W] = {}, behind[W] = {},
                             bent[W] = {};
        const int64_t at = s.begin + e;
        load_some(span(g), at, grad);
        load_some(span(p), at, x);
        if constexpr (Element::moments > 0) load_some(span(m), at, first);
        if constexpr (Element::moments > 1) load_some(span(v), at, second);
        if constexpr (Element::moments > 2) load_some(span(u), at, third);
        if (ema) load_some(span(ema), at, average);
        if (looks) load_some(span(slow), at, behind);
        if constexpr (kCurved<Element>) load_some(span(h), at, bent);
        for (int w = 0; w < W; ++w) {
          const float g = transformed(grad[w], inverse, clip, limit);
          x[w] = move_element<Element>(k, x[w], g, first[w], second[w], third[w], bent[w]);
          if (looks) x[w] = behind[w] = behind[w] + alpha * (x[w] - behind[w]);
        }
        if (looks) store_some(span(slow), at, behind);
        store_some(span(p), at, x);
        if constexpr (Element::moments > 0) store_some(span(m), at, first);
        if constexpr (Element::moments > 1) store_some(span(v), at, second);
        if constexpr (Element::moments > 2) store_some(span(u), at, third);
        if (ema) {
          for (int w = 0; w < W; ++w) average[w] = ema_decay * average[w] + (1 - ema_decay) * x[w];
          store_some(span(ema), at, average);
        }
        for (int j = 0; j < kKept; ++j) {
          if (s.copy[j].to) s.copy[j].put(e, x);
        }
      };
      const int32_t whole = s.count / 4 * 4;
      for (int64_t e = 4 * int64_t{thread_index()}; e < whole; e += 4 * block_threads())
        some(std::integral_constant<int, 4>{}, e);
      for (int64_t e = whole + thread_index(); e < s.count; e += block_threads())
        some(std::integral_constant<int, 1>{}, e);
    }
  }

 private:
  static DEV Ref span(const float* data) {
    Ref r;
    r.data = const_cast<float*>(data);
    return r;
  }
};

struct CommitStatistics {
  const UpdateState* state;
  const Statistic* statistics;
  int64_t n;
  DEV void operator()() const {
    if (state->found_inf) return;
    for (int64_t i = block_index(); i < n; i += grid_blocks()) {
      const Statistic s = statistics[i];
      for (int64_t e = thread_index(); e < s.count; e += block_threads()) {
        s.committed[e] = s.staged[e];
        const float v[1] = {s.staged[e]};
        for (int j = 0; j < kKept; ++j) {
          if (s.copy[j].to) s.copy[j].put(e, v);
        }
      }
    }
  }
};

// The step's record to the host's memory; the count that says it is there goes last.
struct Report {
  const UpdateState* state;
  UpdateState* ring;
  int64_t* counts;  // on the device: reports made; in host memory: the same, seen later
  volatile int64_t* seen;
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
