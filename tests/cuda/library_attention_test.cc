// The guard of an attention library: its requests, and when the library is accepted, rejected, or dropped because it is
// slower than the project's kernels.
#include <catch2/catch_all.hpp>
#include <functional>

#include "tests/cuda/fake_attention.h"

using namespace amp;
using namespace amp::test;

namespace {

constexpr double kNear = 3e-3;

}  // namespace

TEST_CASE("an attention library is used after it has agreed and is faster", "[cuda]") {
  for (const bool backward : {false, true}) {
    for (const int layout : {0, 1, 2}) {
      BehindGuard g;
      if (layout == 1) {
        g.attrs.set("heads_first", int64_t{1});
        g.in = {draw({2, 2, 9, 16}, 1, DType::f16), draw({2, 2, 7, 16}, 2, DType::f16),
                draw({2, 2, 7, 24}, 3, DType::f16)};
      } else if (layout == 2) {
        g.attrs.set("packed", int64_t{1});
        g.in = {draw({2, 9, 3, 2, 16}, 1, DType::f16), {}, {}};
      }
      if (backward) g.turn_backward();
      INFO("layout " << layout << ", backward " << backward);
      OnDevice node = g.node();
      CHECK(g.off(g.run(node, g.in)) < kNear);
      CHECK(g.fake->runs == 5);  // runs of the library: once to compare, three times to measure, once for the result
      CHECK(g.fake->timed == 2);
      CHECK(g.fake->memory == true);
      g.fake->error = 0.5;  // later errors of 0.5 show that the library runs
      CHECK(g.off(g.run(node, g.in)) > 0.1);
      CHECK(g.fake->runs == 6);
      CHECK(g.warnings.str().empty());
    }
  }
}

TEST_CASE("an attention library that is slower is not used", "[cuda]") {
  for (const bool remembered : {false, true}) {
    BehindGuard g;
    g.fake->own_ms = 0.5;
    if (remembered) g.fake->memory = false;
    OnDevice node = g.node();
    CHECK(g.off(g.run(node, g.in)) < kNear);
    CHECK(g.fake->timed == (remembered ? 0 : 2));
    CHECK(g.fake->memory == false);
    g.fake->error = 0.5;
    const int runs = g.fake->runs;
    CHECK(g.off(g.run(node, g.in)) < kNear);
    CHECK(g.fake->runs == runs);
    CHECK(g.warnings.str().empty());
  }
}

TEST_CASE("an attention library that differs in one result is dropped with a warning", "[cuda]") {
  for (const bool backward : {false, true}) {
    BehindGuard g;
    g.fake->error = 0.5;
    if (backward) g.turn_backward();
    OnDevice node = g.node();
    for (int i = 0; i < 2; ++i) CHECK(g.off(g.run(node, g.in)) < kNear);
    CHECK(g.fake->runs == 1);
    CHECK(g.fake->timed == 0);
    CHECK(g.warnings.str().find(backward ? "in the gradient of the queries of attention of 9 queries and 7 keys"
                                         : "in the result of attention of 9 queries") != std::string::npos);
  }
  BehindGuard g;
  g.fake->refuses = true;
  OnDevice node = g.node();
  for (int i = 0; i < 2; ++i) CHECK(g.off(g.run(node, g.in)) < kNear);
  CHECK(g.fake->runs == 1);
  CHECK(g.warnings.str().find("W_LIBRARY: a library refuses to run") != std::string::npos);
}

TEST_CASE("an attention library is not validated by zeros or while launches are recorded", "[cuda]") {
  BehindGuard g;
  std::vector<HostTensor> zeros;
  for (const HostTensor& t : g.in) zeros.push_back(HostTensor::zeros(t.dtype(), t.dims()));
  g.fake->waits = false;
  OnDevice node = g.node();
  CHECK(g.off(g.run(node, g.in)) < kNear);
  CHECK(g.fake->runs == 0);
  g.fake->waits = true;
  g.run(node, zeros);
  g.run(node, zeros);
  CHECK(g.fake->runs == 2);
  CHECK(g.fake->timed == 0);
  CHECK(g.off(g.run(node, g.in)) < kNear);
  CHECK(g.fake->memory == true);
}

TEST_CASE("without memory for the comparison, attention continues without its library", "[cuda]") {
  BehindGuard g;
  OnDevice node = g.node();
  g.device->memory_limit = g.device->memory_in_use() + 64;
  CHECK(g.off(g.run(node, g.in)) < kNear);
  CHECK(g.fake->runs == 0);
  g.device->memory_limit = 0;  // the next run has memory for the comparison
  CHECK(g.off(g.run(node, g.in)) < kNear);
  CHECK(g.fake->memory == true);
  CHECK(g.warnings.str().empty());
}

TEST_CASE("a decision about one attention holds for all with its key", "[cuda]") {
  for (const double error : {0.0, 0.5}) {
    BehindGuard g;
    g.fake->shared_key = "the same";
    g.fake->error = error;
    OnDevice first = g.node(), second = g.node();
    CHECK(g.off(g.run(first, g.in)) < kNear);
    const int runs = g.fake->runs, timed = g.fake->timed;
    CHECK(g.off(g.run(second, g.in)) < kNear);
    CHECK(g.fake->runs == runs + (error == 0 ? 1 : 0));  // used at once, or rejected and not called
    CHECK(g.fake->timed == timed);
  }
}

TEST_CASE("an attention library receives masks as biases", "[cuda]") {
  BehindGuard g;
  HostTensor added = HostTensor::zeros(DType::f32, {2, 1, 1, 7}),
             keep = HostTensor::zeros(DType::boolean, {1, 2, 9, 7});
  for (int64_t i = 0; i < 14; ++i)
    added.as_mutable<float>()[i] = i % 3 == 1 ? -3.4e38f : 0.25f * static_cast<float>(i % 4);
  for (int64_t i = 0; i < keep.numel(); ++i) keep.as_mutable<bool>()[i] = i % 5 != 2;
  g.attrs.set("fill", -100.0);
  for (const HostTensor& mask : {added, added.cast(DType::f16), keep}) {
    g.in.resize(3);
    g.in.push_back(mask);
    g.fake->memory.reset();
    g.fake->runs = 0;
    OnDevice node = g.node();
    CHECK(g.off(g.run(node, g.in)) < kNear);
    CHECK(g.fake->what.bias == mask.dims());
    CHECK(g.fake->runs == 5);
    CHECK(g.off(g.run(node, g.in)) < kNear);
    CHECK(g.fake->runs == 6);
    CHECK(g.warnings.str().empty());
  }
}

TEST_CASE("the built-in kernels compute rows whose keys are all masked, which a library would not", "[cuda]") {
  for (const bool backward : {false, true}) {
    for (const bool boolean : {false, true}) {
      BehindGuard g;
      g.attrs.set("fill", -1e4);
      if (backward) g.op = "FusedAttentionGrad";
      const auto operands = [&](bool hidden) {
        HostTensor mask = HostTensor::zeros(DType::f32, {2, 1, 1, 7});
        for (int64_t j = 0; j < 14; ++j)
          mask.as_mutable<float>()[j] = hidden && j > 6 ? (boolean ? 0.0f : -3.4028235e38f) : 1.0f;
        std::vector<HostTensor> in(g.in.begin(), g.in.begin() + 3);
        in.push_back(boolean ? mask.cast(DType::boolean) : mask);
        if (!backward) return in;
        const std::vector<HostTensor> y = on_cpu("FusedAttention", in, g.attrs);
        const HostTensor dy = draw(y[0].dims(), 9, DType::f16);
        in.insert(in.end(), {HostTensor(), y[0].cast(DType::f16), y[1].cast(DType::f32), dy, y[2].cast(DType::f32)});
        return in;
      };
      g.in = operands(false);
      OnDevice node = g.node();
      const auto off = [&](bool hidden) {
        g.in = operands(hidden);
        return g.off(g.run(node, g.in));
      };
      INFO("backward " << backward << ", boolean " << boolean);
      CHECK(off(true) < kNear);
      CHECK(g.fake->runs == 0);  // such a row cannot validate the library
      CHECK(off(false) < kNear);
      CHECK(g.fake->memory == true);
      g.fake->error = 0.5;  // later errors of 0.5 show that the library runs
      CHECK(off(false) > 0.1);
      CHECK(off(true) < kNear);
      CHECK(off(false) > 0.1);
      CHECK(g.warnings.str().empty());
    }
  }
}

TEST_CASE("an attention library is not used if its result is undefined", "[cuda]") {
  struct Row {
    const char* what;
    std::function<void(BehindGuard&)> change;
  };
  const HostTensor keep = HostTensor::zeros(DType::boolean, {1, 1, 1, 7});
  for (const Row& r : {Row{"keys hidden by -inf", [&](BehindGuard& g) { g.in.push_back(keep); }},
                       Row{"empty rows are zero", [](BehindGuard& g) { g.attrs.set("empty_rows_zero", int64_t{1}); }},
                       Row{"fp32",
                           [](BehindGuard& g) {
                             for (HostTensor& t : g.in) t = t.cast(DType::f32);
                           }},
                       Row{"sequences", [](BehindGuard& g) {
                             g.in = {draw({1, 9, 2, 16}, 1, DType::f16),
                                     draw({1, 9, 2, 16}, 1, DType::f16),
                                     draw({1, 9, 2, 16}, 1, DType::f16),
                                     {},
                                     HostTensor::of<int64_t>({2}, std::vector<int64_t>{0, 9})};
                           }}}) {
    BehindGuard g;
    r.change(g);
    INFO(r.what);
    g.node();
    CHECK(g.asked == 0);
  }
}
