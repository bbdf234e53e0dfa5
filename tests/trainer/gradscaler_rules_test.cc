// The rules of torch.amp.GradScaler (from the source and behavior of torch 2.15), one test each, for scaler,
// accumulation step and optimizer together. tests/precision/loss_scaler_test.cc has the golden traces.
#include <bit>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <random>

#include "base/error.h"
#include "laid_out.h"
#include "precision/loss_scaler.h"
#include "small_run.h"
#include "trainer/loop/micro_batches.h"

using namespace amp;
using namespace amp::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

struct Weights {
  explicit Weights(const OptimizerConfig& config = {}) : layout(DecayExclude::none) {
    layout.add("w", {3});
    p.assign(static_cast<size_t>(layout.size()), 1.0f);
    g.assign(p.size(), 0.0f);
    optimizer = std::make_unique<LaidOut<float>>(config, layout, p.data());
  }
  void grads(float a, float b, float c) { g[0] = a, g[1] = b, g[2] = c; }
  bool step(LossScaler& s, double lr = 0.1) {  // makes the same calls as the Trainer
    const GradStats stats = optimizer->inspect(g.data(), s.scale());
    const bool applied = optimizer->apply(p.data(), g.data(), s.scale(), stats, lr);
    s.update(stats.found_inf);
    return applied;
  }
  std::vector<float> moment(const char* name) const {
    const HostTensor t = optimizer->state().at(name);
    return {t.as<float>(), t.as<float>() + t.numel()};
  }
  FlatLayout layout;
  std::vector<float> p, g;
  std::unique_ptr<LaidOut<float>> optimizer;
};

OptimizerConfig sgd(double clip = 0) {
  OptimizerConfig c;
  c.rule = "sgd";
  c.max_grad_norm = clip;
  return c;
}

}  // namespace

TEST_CASE("defaults and what the constructor refuses", "[gradscaler]") {
  const LossScaleConfig c;
  CHECK(c.mode == LossScaleConfig::Mode::dynamic);
  CHECK(c.init == 65536.0);
  CHECK(c.growth_factor == 2.0);
  CHECK(c.backoff_factor == 0.5);
  CHECK(c.growth_interval == 2000);
  const LossScaler s;
  CHECK(s.scale() == 65536.0f);
  CHECK(s.state().growth_tracker == 0);
  STATIC_CHECK(std::is_same_v<decltype(s.scale()), float>);
  STATIC_CHECK(std::is_same_v<decltype(s.state().growth_tracker), int32_t>);
  for (const double growth : {1.0, 0.5}) CHECK_THROWS_AS(LossScaler({.growth_factor = growth}), Error);
  for (const double backoff : {1.0, 2.0}) CHECK_THROWS_AS(LossScaler({.backoff_factor = backoff}), Error);
  CHECK_NOTHROW(LossScaler({.growth_factor = 1.0000001, .backoff_factor = 0.9999999}));
}

TEST_CASE("the loss times the scale; gradients times float(1 / double(scale)); any non-finite is found",
          "[gradscaler]") {
  // The backward pass starts at scale / items.
  const Losses losses = LossSpec{"mse", {"y"}};
  LossAccumulator window(losses);
  window.count({{"x", HostTensor::zeros(DType::f32, {4, 1})}, {"label", HostTensor::zeros(DType::f32, {4, 1})}});
  CHECK(window.seeds(3.5) == std::vector<double>{3.5 / 4});

  for (const float scale : {3.0f, 65536.0f, 1.7e-38f, 10.1f, 1.0f}) {
    LossScaler s;
    s.set_scale(scale);
    const auto inverse = static_cast<float>(1.0 / static_cast<double>(scale));
    CHECK(s.unscale_factor() == inverse);
    Weights w(sgd());
    w.grads(scale * 0.7f, -scale, 0);
    CHECK(w.step(s, 1));
    CHECK(w.p[0] == 1.0f - scale * 0.7f * inverse);
    CHECK(w.p[1] == 1.0f + scale * inverse);
    CHECK(w.p[2] == 1.0f);
  }
  for (const float bad : {kInf, -kInf, kNan}) {
    Weights w(sgd());
    w.grads(1, bad, 1);
    CHECK(w.optimizer->inspect(w.g.data(), 1).found_inf);
    CHECK(w.optimizer->inspect(w.g.data(), 65536).found_inf);
  }
  Weights w(sgd());  // the largest finite numbers do not count as infinities
  w.grads(3.4028235e38f, -3.4028235e38f, 1e-45f);
  CHECK_FALSE(w.optimizer->inspect(w.g.data(), 1).found_inf);
}

TEST_CASE("a skipped step leaves parameters and optimizer state untouched", "[gradscaler]") {
  Weights w;  // with AdamW
  LossScaler s;
  w.grads(1, kNan, 1);
  CHECK_FALSE(w.step(s));
  CHECK(w.p[0] == 1.0f);
  CHECK(w.optimizer->steps() == 0);
  CHECK(w.moment("m/w") == std::vector<float>(3, 0.0f));  // torch would not even create the moments
  CHECK(w.moment("v/w") == std::vector<float>(3, 0.0f));
  CHECK(s.scale() == 32768);
  // The first applied step is step 1 of Adam, as if no step had been skipped.
  Weights other;
  LossScaler t;
  t.set_scale(32768);
  for (Weights* x : {&w, &other}) x->grads(32768, -2 * 32768, 0);
  CHECK(w.step(s));
  CHECK(other.step(t));
  CHECK(w.p == other.p);
  CHECK(w.moment("m/w") == other.moment("m/w"));
}

TEST_CASE("update backs off, counts, grows if that is finite; update(new_scale) leaves the tracker", "[gradscaler]") {
  LossScaleConfig c{.init = 8, .growth_interval = 3, .min = 0, .max = std::numeric_limits<double>::infinity()};
  LossScaler s(c);
  s.update(false);
  s.update(false);
  CHECK((s.scale() == 8 && s.state().growth_tracker == 2));
  s.update(true);
  CHECK((s.scale() == 4 && s.state().growth_tracker == 0));
  for (int i = 0; i < 3; ++i) s.update(false);
  CHECK((s.scale() == 8 && s.state().growth_tracker == 0));
  s.set_scale(0x1p127f);
  for (int i = 0; i < 3; ++i) s.update(false);
  CHECK((s.scale() == 0x1p127f && s.state().growth_tracker == 0));  // growth is refused, but the tracker is reset
  s.update(false);
  s.set_scale(32);
  CHECK((s.scale() == 32 && s.state().growth_tracker == 1));
  // Infinities in several parameters count as one overflow.
  Weights w(sgd());
  w.grads(kInf, kNan, -kInf);
  CHECK_FALSE(w.step(s));
  CHECK(s.scale() == 16);
}

TEST_CASE("state saved after update continues the same; disabled, the scale is 1", "[gradscaler]") {
  LossScaleConfig c{.init = 256, .growth_factor = 1.5, .backoff_factor = 0.25, .growth_interval = 4};
  LossScaler a(c);
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i) {
    a.update(random() % 5 == 0);
    LossScaler b(c);
    b.restore(a.state());
    CHECK(b.scale() == a.scale());
    CHECK(b.state() == a.state());
    LossScaler a2 = a;
    for (const bool bad : {false, false, true, false, false, false, false}) {
      a2.update(bad);
      b.update(bad);
      CHECK(a2.state() == b.state());
    }
  }
  c.mode = LossScaleConfig::Mode::off;
  LossScaler off(c);
  CHECK_FALSE(off.enabled());
  CHECK(off.scale() == 1);
  CHECK(off.unscale_factor() == 1);
  off.restore(a.state());
  CHECK(off.scale() == 1);
}

TEST_CASE("clipping is of unscaled gradients by min(1, max / (norm + 1e-6)), and never sees an infinity",
          "[gradscaler]") {
  for (const float scale : {1.0f, 65536.0f, 0.25f}) {
    LossScaler s;
    s.set_scale(scale);
    Weights w(sgd(5));
    w.p.assign(w.p.size(), 0.0f);
    w.grads(3 * scale, 4 * scale, 0);
    CHECK(w.optimizer->inspect(w.g.data(), scale).norm == 5.0);
    CHECK(w.step(s, 1));
    CHECK(-w.p[0] == 2.9999993f);
    CHECK(-w.p[1] == 3.999999f);
    CHECK(w.p[2] == 0.0f);
  }
  LossScaler s;
  Weights w(sgd(5));
  w.grads(kInf, 1, 1);
  CHECK(w.optimizer->inspect(w.g.data(), 1).norm == kInf);
  CHECK_FALSE(w.step(s));  // clipped gradients would be (NaN, 0, 0)
  CHECK(w.p[0] == 1.0f);
  CHECK(w.g[1] == 1.0f);
}

TEST_CASE("one scale a window, unscaled once after its last micro-batch, one update", "[gradscaler]") {
  // Micro-batches of one window add scaled gradients of the same scale: four of 2 rows equal one of 8, at any scale. A
  // scale that grows every step grows once per window.
  const SourceGraph g = random_graph(R"(
    input x
    param w 3 1
    y = MatMul(x, w)
    output y)",
                                     "w 1");
  const HostTensor x = normal({8, 3}, 1, 3), label = normal({8, 1}, 1, 4);
  const auto rows = [](const HostTensor& t, int64_t first, int64_t count) {
    const int64_t width = t.numel() / 8;
    const float* p = t.as<float>() + first * width;
    return HostTensor::of<float>({count, width}, std::vector<float>(p, p + count * width));
  };
  const Losses losses = LossSpec{"mse", {"y"}};
  const auto train = [&](int64_t micro, double init) {
    Session session(g, {});
    session.prepare(losses, {{"x", rows(x, 0, 8 / micro)}, {"label", rows(label, 0, 8 / micro)}});
    LaidOut<float> o(sgd(1), session.layout(), static_cast<const float*>(session.params()));
    LossScaler s({.init = init, .growth_interval = 1});
    std::vector<double> norms;
    for (int step = 0; step < 5; ++step) {
      LossAccumulator window(losses);
      std::vector<Tensors> batches;
      for (int64_t m = 0; m < micro; ++m) {
        batches.push_back({{"x", rows(x, m * 8 / micro, 8 / micro)}, {"label", rows(label, m * 8 / micro, 8 / micro)}});
        window.count(batches.back());
      }
      const double scale = s.scale();
      session.zero_grads();
      for (const Tensors& b : batches) window.add(run_micro_batch(session, losses, b, window.seeds(scale), true));
      auto* grads = static_cast<float*>(session.grads());
      const GradStats stats = o.inspect(grads, scale);
      REQUIRE(o.apply(static_cast<float*>(session.params()), grads, scale, stats, 0.05));
      session.set_params(session.host_params());
      norms.push_back(stats.norm);
      CHECK(s.update(stats.found_inf).next == 2 * scale);
    }
    return norms;
  };
  const std::vector<double> want = train(1, 1);
  for (const int64_t micro : {1, 2, 4}) {
    for (const double init : {1.0, 1024.0}) {
      const std::vector<double> got = train(micro, init);
      for (size_t i = 0; i < want.size(); ++i) CHECK(got[i] == Catch::Approx(want[i]).epsilon(1e-6));
    }
  }
}

TEST_CASE("Apex's and onnxruntime's bounds, hysteresis, k infinities in a row", "[gradscaler]") {
  LossScaleConfig c;  // the default limits are onnxruntime's: 1 to 2^24
  CHECK(c.min == 1);
  CHECK(c.max == 16777216);
  c.growth_interval = 1;
  LossScaler s(c);
  for (int i = 0; i < 30; ++i) s.update(false);
  CHECK(s.scale() == 16777216);
  for (int i = 0; i < 30; ++i) s.update(true);
  CHECK(s.scale() == 1);
  // Apex's update_scale_hysteresis: the tracker counts down, and a finite step resets it. At 0, every further infinity
  // backs off.
  c.init = 1024;
  c.growth_interval = 1000;
  c.hysteresis = 3;
  LossScaler h(c);
  std::vector<float> trace;
  for (const char x : std::string("ii.iiii.i")) {
    h.update(x == 'i');
    trace.push_back(h.scale());
  }
  CHECK(trace == std::vector<float>{1024, 1024, 1024, 1024, 1024, 512, 256, 256, 256});
}

TEST_CASE("an infinity of one rank survives the sum, so all ranks decide alike", "[gradscaler]") {
  constexpr int kRanks = 3;
  std::vector<Weights> rank;
  std::vector<LossScaler> scaler;
  for (int r = 0; r < kRanks; ++r)
    rank.emplace_back(), scaler.emplace_back(LossScaleConfig{.init = 64, .growth_interval = 5});
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  int64_t skipped = 0;
  for (int step = 0; step < 1000; ++step) {
    std::vector<float> sum(rank[0].g.size(), 0.0f);
    bool bad = false;
    for (int r = 0; r < kRanks; ++r) {
      const bool mine = random() % 12 == 0;
      bad |= mine;
      for (size_t i = 0; i < 3; ++i)
        sum[i] += mine && i == 1 ? (r == 1 ? -kInf : kInf) : normal(random) * scaler[0].scale();
    }
    for (int r = 0; r < kRanks; ++r) {
      rank[static_cast<size_t>(r)].g = sum;  // the result of an all-reduce: opposite infinities give NaN
      REQUIRE(rank[static_cast<size_t>(r)].step(scaler[static_cast<size_t>(r)]) == !bad);
    }
    skipped += bad;
    for (int r = 1; r < kRanks; ++r) {
      REQUIRE(scaler[static_cast<size_t>(r)].state() == scaler[0].state());
      REQUIRE(rank[static_cast<size_t>(r)].p == rank[0].p);
    }
  }
  CHECK(skipped > 100);
  // This rank follows the decision of another rank, although its own gradients are finite.
  Weights w;
  w.grads(1, 1, 1);
  GradStats stats = w.optimizer->inspect(w.g.data(), 1);
  stats.found_inf = true;
  CHECK_FALSE(w.optimizer->apply(w.p.data(), w.g.data(), 1, stats, 0.1));
  CHECK(w.p[0] == 1.0f);
}

TEST_CASE("a scale that fell to 0 applies nothing", "[gradscaler]") {
  Weights w;
  w.grads(0, 0, 0);  // a loss of 0 has gradients of 0; times 1 / 0 they are NaN
  const GradStats stats = w.optimizer->inspect(w.g.data(), 0);
  CHECK(stats.found_inf);
  CHECK_FALSE(w.optimizer->apply(w.p.data(), w.g.data(), 0, stats, 0.1));
  CHECK(w.p[0] == 1.0f);
}
