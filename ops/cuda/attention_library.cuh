// Attention of a node by a library (backend/cuda/attention.h): how the node is described to the library, and the
// operands that the library needs in addition to the node's. Masks that are causal, or that mask the keys after each
// sample's length, are not passed as tensors. The shape of a mask suggests its form: (B, 1, 1, Sk) lengths, (1, 1, S,
// S) causal, (B, 1, S, S) causal with lengths. FindForm compares every mask with this form on the device. If the first
// mask does not have the form, all masks are passed as the library's bias from then on. If a later mask does not have
// it, the project's kernels compute that run.
#pragma once

#include <cmath>

#include "backend/cuda/attention.h"
#include "backend/cuda/launch.cuh"
#include "ops/cuda/attention_task.cuh"

namespace amp::cuda {

// Converts a mask to the library's bias. Finite numbers remain finite when they are rounded.
struct ToBias {
  Ref mask, bias;
  float fill, lowest;
  DEV void operator()(int64_t i) const {
    float v = mask.type == DType::boolean ? (load<float>(mask, i) != 0 ? 0.0f : fill) : load<float>(mask, i);
    if (v < lowest && v != -INFINITY) v = lowest;
    store(bias, i, v);
  }
};

// Sets `unfit` if a library would compute a row of the mask wrongly. A library keeps only the logarithm of a row's sum
// of exponentials, which is rounded by more than 2^-14 if the row's largest bias is beyond 1024. It also adds the fill
// value of a boolean mask to masked scores instead of replacing them, which differs if all keys of a row are masked.
// One warp processes each row.
struct FindRounding {
  static constexpr bool cooperative = true;
  static constexpr int max_threads = 256;
  Ref mask;
  int64_t rows, keys;
  int32_t* unfit;
  DEV void operator()() const {
    for (int64_t row = global_index() / 32; row < rows; row += global_threads() / 32) {
      float most = -INFINITY;
      for (int64_t j = lane(); j < keys; j += 32) most = Maximum{}(most, load<float>(mask, row * keys + j));
      most = warp_reduce(most, Maximum{});
      const bool fine = mask.type == DType::boolean ? most > 0 : fabsf(most) <= 1024;
      if (lane() == 0 && !fine) *unfit = 1;
    }
  }
};

// Checks the form of a mask (batch, 1, rows, keys). Writes the number of keys of each sample (its length), and sets
// `unfit` if the mask does not have the form. In this form, the last row of a sample leaves keys 0 to length - 1
// unmasked, at least one. Row i leaves the same keys unmasked or, if the form is causal, those of them up to key i.
// Without lengths, the last row leaves all keys unmasked. One warp processes each row.
struct FindForm {
  static constexpr bool cooperative = true;
  static constexpr int max_threads = 256;
  // A bias of at most this value masks a key: exp(-1000), its weight relative to an unmasked key, is 0.
  static constexpr float kHidden = -1000;
  Ref mask;
  int64_t batch, rows, keys;
  bool causal;
  int32_t queries;
  int32_t *query_lengths, *key_lengths;  // (batch) lengths, or null
  int32_t* unfit;

  // Returns 1 for an unmasked key, 0 for a masked key, -1 for any other bias.
  DEV int cell(int64_t at) const {
    const float v = load<float>(mask, at);
    if (mask.type == DType::boolean) return v != 0;
    return v == 0 ? 1 : v <= kHidden ? 0 : -1;
  }
  DEV void operator()() const {
    for (int64_t r = global_index() / 32; r < batch * rows; r += global_threads() / 32) {
      const int64_t sample = r / rows, i = r - sample * rows, last = (sample + 1) * rows - 1;
      int count = 0, end = 0, wrong = 0;
      for (int64_t j = lane(); j < keys; j += 32) {
        const bool there = cell(last * keys + j) == 1;
        count += there;
        if (there) end = static_cast<int>(j) + 1;
        if (cell(r * keys + j) != (there && (!causal || j <= i))) wrong = 1;
      }
      count = warp_reduce(count, Sum{});
      end = warp_reduce(end, Maximum{});
      wrong = warp_reduce(wrong, Maximum{});
      if (lane() != 0) continue;
      if (wrong != 0 || count != end || count == 0 || (!key_lengths && count != keys)) *unfit = 1;
      if (r != last || !key_lengths) continue;
      query_lengths[sample] = queries;
      key_lengths[sample] = count;
    }
  }
};

// Writes the dropout mask by which a library multiplies the weights: 1 for a kept weight, otherwise 0. Index i stands
// for the four keys that one Philox block decides, or for one key.
struct WriteKept {
  AttentionProblem p;
  uint16_t* kept;
  uint16_t one;
  DEV void operator()(int64_t i) const {
    const int64_t per_row = p.in_fours ? p.keys / 4 : p.keys, row = quotient(i, per_row), at = i - row * per_row,
                  unit = quotient(row, p.queries), query = row - unit * p.queries;
    const AttentionUnit u(p, unit);
    const AttentionDropout dropout(p, u);
    if (!p.in_fours) {
      kept[i] = dropout.keeps(query, at) ? one : uint16_t{0};
      return;
    }
    const PhiloxBlock b = dropout.words(query, at);
    for (int k = 0; k < 4; ++k) kept[4 * i + k] = dropout.keeps(b.v[k]) ? one : uint16_t{0};
  }
};

// Runs the attention of one node by a library. The first Way describes the mask by its form (causal, lengths). It is
// used while the masks have this form. The next Way passes the mask as a bias (see the top of this file).
class AttentionRunner {
 public:
  struct Way {
    Attention what;
    AttentionOperands operands;
    std::function<void(void* kept)> prepare;  // computes the additional operands
    bool form = false;
  };

  // ways: in order of preference. own: the project's kernels. finish: called after the library has run.
  AttentionRunner(CudaDevice& d, std::vector<Way> ways, Kernel own, Kernel finish)
      : device_(d), ways_(std::move(ways)), own_(std::move(own)), finish_(std::move(finish)) {
    plan();
  }
  bool planned() const { return library_ != nullptr; }

  void run() {
    if (!library_ || guarded_->dropped()) return own_();
    const bool first = ways_[0].form && !has_form_;
    if (first && !library_->may_wait()) return own_();
    AttentionOperands o = ways_[0].operands;
    o.kept = library_->kept();
    ways_[0].prepare(library_->kept());
    if (first) {
      int32_t unfit = 0;
      device_.download(&unfit, o.unfit, sizeof unfit);
      has_form_ = unfit == 0;
      if (!has_form_) {
        ways_.erase(ways_.begin());
        plan();
        return run();
      }
    }
    if (guarded_->run(o, own_)) finish_();
  }

 private:
  // Makes a plan of the first way that the library supports, and removes the ways before it.
  void plan() {
    library_.reset();
    while (!ways_.empty() && !(library_ = device_.attention(ways_[0].what))) ways_.erase(ways_.begin());
    if (library_) guarded_.emplace(device_, ways_[0].what, library_);
  }

  CudaDevice& device_;
  std::vector<Way> ways_;
  Kernel own_, finish_;
  std::shared_ptr<LibraryAttention> library_;  // null: the library supports none of the ways
  std::optional<GuardedAttention> guarded_;
  bool has_form_ = false;  // set when the first mask was found to have the form
};

// The forms in which a node can be described to the library, in order of preference, and the memory that they need.
class AttentionByLibrary {
 public:
  AttentionByLibrary(const KernelArgs& a, Carver& carve, const AttentionTask& t, bool backward) {
    if (!t.tiled || t.f.sequences || a.has(4) || t.f.units() <= 0 || t.f.queries <= 0 || t.f.keys <= 0) return;
    const auto place = [](const AttentionForm::Strides& s) { return HeadStrides{s.batch, s.token, s.head}; };
    Attention what;
    what.backward = backward;
    what.type = t.type;
    what.batch = t.f.batch, what.heads = t.f.heads, what.queries = t.f.queries, what.keys = t.f.keys;
    what.width = t.f.width, what.value_width = t.f.value_width;
    what.q = place(t.f.q), what.k = place(t.f.k), what.v = place(t.f.v), what.y = place(t.f.y);
    what.scale = t.f.scale;
    if (t.p.threshold != 0) what.kept_scale = t.f.dropout.scale;
    if (!t.p.mask) {
      if (!t.f.empty_rows_zero) whats_.push_back(what);
      return;
    }
    take_mask(a, carve, t, what);
  }

  // Returns a kernel that runs the project's kernels, which make(t) returns, until the library has been validated,
  // and then the library. o: the node's operands. rest: output 2 of the forward pass, which is set to 0 if the
  // library computes lse; null for the gradient.
  template <class Make>
  Kernel guard(const KernelArgs& a, const AttentionTask& t, const AttentionOperands& o, float* rest,
               const Make& make) const {
    const Kernel own = make(t);
    if (whats_.empty()) return own;
    CudaDevice& d = device_of(a);
    std::vector<AttentionRunner::Way> ways;
    for (const Attention& what : whats_) ways.push_back(way(d, a, t, what, o));
    AttentionTask gated = t;
    gated.p.gate = unfit_;
    const Kernel mend = unfit_ ? make(gated) : [] {};
    const int64_t rest_bytes = t.f.batch * t.f.heads * t.f.queries * int64_t{sizeof(float)};
    const auto runner = std::make_shared<AttentionRunner>(d, std::move(ways), own, [=, &d] {
      if (rest) d.fill(rest, 0, rest_bytes);
      mend();
    });
    if (!runner->planned()) return own;
    return [runner] { runner->run(); };
  }

 private:
  // Returns whether scores that a boolean mask replaces by `fill` get the weight 0 relative to an unmasked key.
  static bool fill_hides(double fill) { return fill <= -100; }

  void take_mask(const KernelArgs& a, Carver& carve, const AttentionTask& t, const Attention& what) {
    const Tensor& mask = a.in[3];
    const Dims& d = mask.dims;
    const bool hides = !t.p.hides() || fill_hides(t.f.fill), square = t.f.queries == t.f.keys && t.f.queries > 1;
    Attention form = what;
    form.lengths = d[0] > 1;
    form.causal = square && d[2] == t.f.queries;
    const bool has_form = hides && d[1] == 1 && d[3] == t.f.keys && (form.causal || (form.lengths && d[2] == 1));
    // Libraries do not define the result of a row whose keys are all masked by -inf, and they cannot return 0 for a
    // row without keys.
    const bool has_bias = hides && d[3] == t.f.keys && !t.f.empty_rows_zero && !(t.p.hides() && std::isinf(t.f.fill));
    if (has_form) whats_.push_back(form);
    if (has_form && form.lengths) lengths_ = carve.take<int32_t>(2 * t.f.batch);
    if (has_bias) {
      whats_.push_back(what);
      whats_.back().bias = d;
      bias_ = mask.dtype == t.type ? mask : Tensor{carve.take<uint16_t>(mask.numel()), t.type, d};
    }
    if (!whats_.empty()) unfit_ = carve.take<int32_t>(1);
  }

  AttentionRunner::Way way(CudaDevice& d, const KernelArgs& a, const AttentionTask& t, const Attention& what,
                           AttentionOperands o) const {
    std::vector<Kernel> kernels;
    if (!what.bias.empty()) {
      o.bias = bias_.data;
      if (bias_.data != a.in[3].data) {
        const ToBias body{a.in[3], bias_, t.p.fill, t.type == DType::f16 ? -65504.0f : -3.3895e38f};
        kernels.push_back([&d, body, n = a.in[3].numel()] { for_each(d, n, body); });
      }
      const Dims& m = a.in[3].dims;
      kernels.push_back(look(d, FindRounding{a.in[3], m[0] * m[1] * m[2], m[3], unfit_}, m[0] * m[1] * m[2]));
    } else if (unfit_) {
      const Dims& m = a.in[3].dims;
      int32_t* const queries = what.lengths ? lengths_ : nullptr;
      int32_t* const keys = what.lengths ? lengths_ + t.f.batch : nullptr;
      kernels.push_back(look(
          d, FindForm{a.in[3], m[0], m[2], m[3], what.causal, static_cast<int32_t>(t.f.queries), queries, keys, unfit_},
          m[0] * m[2]));
      o.query_lengths = queries, o.key_lengths = keys;
    }
    if (unfit_) o.unfit = unfit_;
    const auto kept = [&d, p = t.p, one = static_cast<uint16_t>(t.type == DType::f16 ? 0x3c00 : 0x3f80),
                       n = t.f.units() * t.f.queries * t.f.keys / (t.p.in_fours ? 4 : 1)](void* to) {
      for_each(d, n, WriteKept{p, static_cast<uint16_t*>(to), one});
    };
    return {what, o,
            [kernels, kept, drops = what.kept_scale != 0](void* to) {
              for (const Kernel& k : kernels) k();
              if (drops) kept(to);
            },
            what.bias.empty() && unfit_ != nullptr};
  }
  template <class Body>
  static Kernel look(CudaDevice& d, const Body& body, int64_t rows) {
    return [&d, body, grid = loop_grid(d, rows * 32)] {
      d.fill(body.unfit, 0, sizeof *body.unfit);
      launch(d, grid, body);
    };
  }

  std::vector<Attention> whats_;
  Tensor bias_;
  int32_t *lengths_ = nullptr, *unfit_ = nullptr;  // null without a mask; see AttentionOperands
};

}  // namespace amp::cuda
