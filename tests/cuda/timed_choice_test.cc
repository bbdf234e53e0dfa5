// Which plan of a library is used for a convolution, and operands with their channels last.
#include "backend/cuda/timed_choice.h"

#include <catch2/catch_all.hpp>
#include <map>

#include "base/error.h"
#include "tests/cuda/on_device.h"

using namespace amp;
using namespace amp::test;
using namespace amp::cuda;

namespace {

// Writes its number to every element, and takes as long as it is told.
struct Numbered final : LibraryConvolution {
  float number = 0;
  double ms = 1;
  bool refuses = false;
  int runs = 0;
  int64_t elements = 0;
  bool* waits = nullptr;

  std::string name() const override { return "a library"; }
  bool may_wait() const override { return *waits; }
  bool run(const void*, const void*, void* c) override {
    ++runs;
    if (refuses) return false;
    std::fill_n(static_cast<float*>(c), elements, number);
    return true;
  }
};

struct Memory final : AutotuneStore {
  std::map<std::string, std::string> known;
  std::optional<std::string> find(const std::string& key) override {
    const auto it = known.find(key);
    return it == known.end() ? std::nullopt : std::optional(it->second);
  }
  void keep(const std::string& key, const std::string& choice) override { known.emplace(key, choice); }
};

struct Three {
  std::unique_ptr<EmulatedDevice> device = make_emulated_device();
  Convolution what{ConvolutionKind::forward, {2, 1, 3, 4, {}}, DType::f32, false};
  Memory store;
  bool waits = true;
  std::vector<std::shared_ptr<Numbered>> plans;
  const Numbered* last = nullptr;  // to run, whose time the stopwatch tells
  float result[6] = {};

  Three() {
    for (int i = 0; i < 3; ++i) {
      plans.push_back(std::make_shared<Numbered>());
      plans.back()->number = static_cast<float>(i + 1);
      plans.back()->elements = 6;
      plans.back()->waits = &waits;
      plans.back()->ms = i == 1 ? 0.25 : 1;
    }
  }
  TimedChoice choice() {
    std::vector<TimedChoice::Candidate> c;
    for (size_t i = 0; i < plans.size(); ++i) c.push_back({"plan " + std::to_string(i), plans[i]});
    return TimedChoice(*device, what, 6, c, store, [this](const std::function<void()>& work) {
      std::vector<int> before;
      for (const auto& p : plans) before.push_back(p->runs);
      work();
      for (size_t i = 0; i < plans.size(); ++i) {
        if (plans[i]->runs > before[i]) return plans[i]->ms;
      }
      return 0.0;
    });
  }
  float run(TimedChoice& c) { return c.run(nullptr, nullptr, result) ? result[5] : 0; }
};

}  // namespace

TEST_CASE("the fastest plan is chosen at first use and kept", "[cuda]") {
  Three t;
  TimedChoice c = t.choice();
  CHECK(t.run(c) == 2);
  CHECK(t.store.known.size() == 1);
  CHECK(t.store.known.begin()->second == "plan 1");
  const int runs = t.plans[0]->runs;
  CHECK(t.run(c) == 2);
  CHECK(t.plans[0]->runs == runs);  // timed once

  Three again;
  again.store = t.store;
  TimedChoice known = again.choice();
  CHECK(again.run(known) == 2);
  CHECK(again.plans[0]->runs == 0);  // known: nothing is timed
  CHECK(again.plans[1]->runs == 1);
}

TEST_CASE("plans are not timed while launches are recorded, nor without memory for it", "[cuda]") {
  Three t;
  TimedChoice c = t.choice();
  t.waits = false;
  CHECK(t.run(c) == 1);
  CHECK(t.plans[1]->runs == 0);
  t.waits = true;
  t.device->memory_limit = 1;
  CHECK(t.run(c) == 1);
  CHECK(t.store.known.empty());
}

TEST_CASE("a plan that refuses is not chosen", "[cuda]") {
  Three t;
  t.plans[1]->refuses = true;
  t.plans[2]->ms = 0.5;
  TimedChoice c = t.choice();
  CHECK(t.run(c) == 3);
  Three all;
  for (const auto& p : all.plans) p->refuses = true;
  TimedChoice none = all.choice();
  CHECK(all.run(none) == 0);
  CHECK(all.store.known.empty());
}

TEST_CASE("convolutions of other shapes have other keys", "[cuda]") {
  const Three t;
  Convolution a = t.what, b = t.what;
  CHECK(key_of(a) == key_of(b));
  b.shape.window[1].stride = 3;
  CHECK(key_of(a) != key_of(b));
  b = a;
  b.type = DType::bf16;
  CHECK(key_of(a) != key_of(b));
  b = a;
  b.kind = ConvolutionKind::grad_w;
  CHECK(key_of(a) != key_of(b));
  b = a;
  b.accumulate = true;
  CHECK(key_of(a) != key_of(b));
}

namespace {

// The CPU's convolution of operands with their channels last.
struct LastOnCpu final : LibraryConvolution {
  Dims x, w, y;
  Attrs attrs;
  Convolution what;

  std::string name() const override { return "a library"; }
  bool may_wait() const override { return true; }
  static HostTensor first(const void* p, const Dims& d, DType t) {  // from channels last
    HostTensor out = HostTensor::zeros(t, d);
    copy(static_cast<const char*>(p), static_cast<char*>(out.mutable_data()), d, size_of(t), false);
    return out;
  }
  static void copy(const char* from, char* to, const Dims& d, int64_t size, bool to_last) {
    const int64_t inner = numel(d) / (d[0] * d[1]);
    for (int64_t n = 0; n < d[0]; ++n) {
      for (int64_t c = 0; c < d[1]; ++c) {
        for (int64_t i = 0; i < inner; ++i) {
          const int64_t f = (n * d[1] + c) * inner + i, l = (n * inner + i) * d[1] + c;
          std::memcpy(to + (to_last ? l : f) * size, from + (to_last ? f : l) * size, static_cast<size_t>(size));
        }
      }
    }
  }
  bool run(const void* a, const void* b, void* c) override {
    const bool forward = what.kind == ConvolutionKind::forward, grad_x = what.kind == ConvolutionKind::grad_x;
    const Dims &da = grad_x ? y : x, &db = forward || grad_x ? w : y, &dc = forward ? y : grad_x ? x : w;
    Attrs with = attrs;
    if (!forward) with.set("dims", dc);
    const char* const op = forward ? "Conv" : grad_x ? "ConvGradX" : "ConvGradW";
    HostTensor out = on_cpu(op, {first(a, da, what.type), first(b, db, what.type)}, with)[0].cast(DType::f32);
    if (what.accumulate) {
      const std::vector<double> before = first(c, dc, what.type).to_doubles();
      for (size_t i = 0; i < before.size(); ++i) out.as_mutable<float>()[i] += static_cast<float>(before[i]);
    }
    out = out.cast(what.type);
    copy(static_cast<const char*>(out.data()), static_cast<char*>(c), dc, size_of(what.type), true);
    return true;
  }
};

}  // namespace

TEST_CASE("a plan with channels last has the result of one with channels first", "[cuda]") {
  const auto device = make_emulated_device();
  struct Case {
    Dims x, w, y;
    int64_t group;
  };
  const Case cases[] = {{{2, 6, 9, 8}, {40, 6, 3, 3}, {2, 40, 7, 6}, 1},
                        {{3, 70, 5, 7}, {12, 35, 1, 1}, {3, 12, 5, 7}, 2},
                        {{2, 1, 6, 6}, {3, 1, 6, 6}, {2, 3, 1, 1}, 1}};
  for (const Case& k : cases) {
    const Attrs attrs{{"strides", std::vector<int64_t>{1, 1}},
                      {"dilations", std::vector<int64_t>{1, 1}},
                      {"pads", std::vector<int64_t>{0, 0, 0, 0}},
                      {"group", k.group}};
    for (const DType type : {DType::f32, DType::f16}) {
      for (const ConvolutionKind kind : {ConvolutionKind::forward, ConvolutionKind::grad_x, ConvolutionKind::grad_w}) {
        for (const bool accumulate : {false, true}) {
          const bool forward = kind == ConvolutionKind::forward, grad_x = kind == ConvolutionKind::grad_x;
          const Convolution what{kind, conv_shape(k.x, k.w, k.y, attrs), type, accumulate};
          const auto inner = std::make_shared<LastOnCpu>();
          inner->x = k.x, inner->w = k.w, inner->y = k.y, inner->attrs = attrs, inner->what = what;
          const HostTensor a = draw(grad_x ? k.y : k.x, 1, type), b = draw(forward || grad_x ? k.w : k.y, 2, type);
          const Dims out = forward ? k.y : grad_x ? k.x : k.w;
          HostTensor c = draw(out, 3, type);
          Attrs with = attrs;
          if (!forward) with.set("dims", out);
          HostTensor want = on_cpu(forward  ? "Conv"
                                   : grad_x ? "ConvGradX"
                                            : "ConvGradW",
                                   {a, b}, with)[0]
                                .cast(DType::f32);
          const std::vector<double> before = c.to_doubles();
          for (size_t i = 0; accumulate && i < before.size(); ++i)
            want.as_mutable<float>()[i] += static_cast<float>(before[i]);
          ChannelsLast plan(*device, what, inner, device->allocate(ChannelsLast::scratch_bytes(what)));
          REQUIRE(plan.run(a.data(), b.data(), c.mutable_data()));
          INFO(key_of(what));
          CHECK(worst(c, want) < (type == DType::f32 ? 2e-6 : 1e-3));
        }
      }
    }
  }
}
