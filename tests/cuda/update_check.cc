// Runs the same random gradients through the device's update and the CPU's optimizer, loss scaler and schedule, and
// compares scalars, weights, moments, averages and 16-bit copies after every step.
#include "tests/cuda/update_check.h"

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "../trainer/laid_out.h"
#include "backend/update_rules.h"
#include "base/cat.h"
#include "tests/cuda/deviation.h"

namespace amp::test {

std::vector<UpdateSetting> update_settings() {
  std::vector<UpdateSetting> out;
  LossScaleConfig dynamic, off;
  dynamic.init = 1024;
  dynamic.growth_interval = 5;
  dynamic.hysteresis = 2;
  off.mode = LossScaleConfig::Mode::off;
  OptimizerConfig c;
  c.weight_decay = 0.1;
  c.max_grad_norm = 1;
  c.ema_decays = {0.9};
  out.push_back({"adamw, norm", c, dynamic});
  c.rule = "adam";
  c.clip_mode = ClipMode::value;
  c.max_grad_norm = 0.05;
  out.push_back({"adam, value", c, dynamic});
  c.rule = "sgd";
  c.clip_mode = ClipMode::norm_inf;
  c.ema_decays = {};
  out.push_back({"sgd, inf-norm", c, off});
  c.settings.momentum = 0.9;
  out.push_back({"sgd with momentum", c, dynamic});
  c.settings.nesterov = true;
  c.max_grad_norm = 0;
  out.push_back({"sgd, Nesterov, no clipping", c, dynamic});
  for (const std::string& name : update_rule_names()) {
    if (name == "sgd" || name == "adam" || name == "adamw") continue;
    OptimizerConfig other;
    other.rule = name;
    other.settings = rule_settings(name, {});
    other.weight_decay = 0.1;
    other.max_grad_norm = 1;
    out.push_back({name, other, dynamic});
    if (rule_settings(name, {}).momentum == 0 && name.rfind("rmsprop", 0) == 0) {
      other.settings.momentum = 0.9;
      out.push_back({name + " with momentum", other, dynamic});
      other.settings.centered = 1;
      out.push_back({name + ", centered, with momentum", other, dynamic});
      other.settings.momentum = 0;
      out.push_back({name + ", centered", other, dynamic});
    }
  }
  c = {};
  c.settings.amsgrad = 1;
  c.weight_decay = 0.1;
  c.ema_decays = {0.9};
  out.push_back({"adamw, AMSGrad", c, dynamic});
  c.rule = "lamb";
  c.settings = rule_settings("lamb", {{"always_adapt", 1}, {"trust_clip", 1}});
  c.clip_mode = ClipMode::value;
  c.max_grad_norm = 0.05;
  out.push_back({"lamb, always adapted and clipped", c, dynamic});
  c.rule = "lars";
  c.settings = rule_settings("lars", {{"momentum", 0.9}, {"trust_coeff", 0.5}});
  c.settings.nesterov = true;
  out.push_back({"lars, Nesterov", c, dynamic});
  c = {};
  c.rule = "adahessian";
  c.settings = rule_settings("adahessian", {{"hessian_power", 0.5}, {"hessian_update_interval", 3}});
  c.sam_rho = 0.5;
  out.push_back({"adahessian at every third step, SAM", c, dynamic});
  c = {};
  c.weight_decay = 0.1;
  c.ema_decays = {0.9};
  c.lookahead = 4;
  c.lookahead_alpha = 0.7;
  out.push_back({"adamw, EMA, Lookahead", c, dynamic});
  c.max_grad_norm = 0.05;
  c.clip_mode = ClipMode::adaptive;
  c.centralize = true;
  out.push_back({"adamw, EMA, Lookahead, adaptive clipping of centralized gradients", c, dynamic});
  c.max_grad_norm = 1;
  c.clip_mode = ClipMode::norm_inf;
  c.centralize = false;
  c.sam_rho = 0.3;
  out.push_back({"adamw, EMA, Lookahead, SAM", c, dynamic});
  c = {};
  c.ema_decays = {0.9, 0.5, 0.99};
  c.ema_every = 3;
  c.gradient_noise = 0.01;
  c.max_grad_norm = 1;
  out.push_back({"adamw, three EMAs of every third step, gradient noise", c, dynamic});
  c.ema_warmup = true;
  c.ema_every = 1;
  c.lookahead = 3;
  out.push_back({"adamw, three EMAs with warm-up, groups", c, dynamic, true});
  c.gradient_noise = 0;
  c.clip_mode = ClipMode::norm_inf;
  c.sam_rho = 0.3;
  out.push_back({"adamw, EMAs, SAM, groups by their largest element", c, dynamic, true});
  c = {};
  c.swa_start = 5;
  c.ema_every = 2;
  c.clip_mode = ClipMode::value;
  c.max_grad_norm = 0.05;
  out.push_back({"adamw, SWA, groups clipped by value", c, dynamic, true});
  c.clip_mode = ClipMode::adaptive;
  out.push_back({"adamw, SWA, groups clipped by their weights, cycled", c, dynamic, true, true});
  c = {};
  c.rule = "sgd";
  c.settings.momentum = 0.9;
  out.push_back({"sgd, cycled momentum", c, dynamic, false, true});
  c = {};
  c.rule = "adahessian";
  c.settings = rule_settings("adahessian", {{"hessian_update_interval", 3}});
  out.push_back({"adahessian, tensors that wait", c, dynamic, true});
  c = {};
  c.rule = "lamb";
  c.settings = rule_settings("lamb", {});
  c.max_grad_norm = 1;
  out.push_back({"lamb, tensors that wait", c, dynamic, true});
  const auto whole = [&](const std::string& name, const char* rule, const std::map<std::string, double>& settings) {
    c = {};
    c.rule = rule;
    c.settings = rule_settings(rule, settings);
    c.weight_decay = 0.1;
    out.push_back({name, c, dynamic});
  };
  whole("adafactor, by relative steps", "adafactor", {{"scale_parameter", 1}, {"relative_step", 1}, {"beta1", 0.9}});
  whole("adamp, rows lose what lies along them", "adamp", {{"delta", 10}});
  whole("sgdp, tensors lose what lies along them", "sgdp", {{"delta", 0.5}, {"momentum", 0.9}});
  whole("muon as AdamW's size", "muon", {{"match_rms_adamw", 1}});
  c.ema_decays = {0.9, 0.5};
  c.lookahead = 3;
  c.max_grad_norm = 1;
  out.push_back({"muon, EMAs, Lookahead, groups", c, dynamic, true});
  for (const char* const rule : {"adam", "adamw", "lion"}) {
    c = {};
    c.rule = rule;
    c.settings = rule_settings(rule, {});
    c.weight_decay = 0.1;
    c.max_grad_norm = 1;
    c.ema_decays = {0.9};
    c.state_bits = 8;
    out.push_back({c.rule + " in 8 bits", c, dynamic});
  }
  c.lookahead = 3;
  out.push_back({"lion in 8 bits, Lookahead, groups", c, dynamic, true});
  return out;
}

namespace {

// Checks that every element differs by at most allowed(wanted). Notes the largest deviation as `name`.
template <class F>
void same(const std::string& name, const float* got, const float* want, int64_t n, const F& allowed) {
  double worst = 0;
  int64_t at = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = got[i], y = want[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double ratio = std::abs(x - y) / allowed(y), off = std::isnan(ratio) ? INFINITY : ratio;
    if (off <= worst) continue;
    worst = off;
    at = i;
  }
  note_deviation(name, worst);
  if (n == 0) return;
  INFO(name << ", element " << at << ": " << got[at] << ", want " << want[at]);
  CHECK(worst <= 1);
}

void same(const std::string& name, const HostTensor& got, const std::vector<float>& want) {
  same(name, got.as<float>(), want.data(), static_cast<int64_t>(want.size()),
       [](double y) { return 2e-6 * (1 + std::abs(y)); });
}

// Compares state whose layout differs from the parameters', then overwrites the device's with the CPU's. If an 8-bit
// moment is halfway between two codes, its last bit decides, which depends on how the compiler contracts products.
// Later steps would diverge.
void compare_own_state(Device& device, DeviceUpdate& update, LaidOut<float>& optimizer) {
  const auto own = update.own_state();
  const auto want_own = optimizer.own_state();
  REQUIRE(own.size() == want_own.size());
  for (size_t i = 0; i < own.size(); ++i) {
    INFO(own[i].first);
    const HostTensor got = device.read(own[i].second), &want = *want_own[i].second;
    CHECK(own[i].first == want_own[i].first);
    REQUIRE(got.dims() == want.dims());
    int64_t others = 0;
    for (int64_t k = 0; k < got.numel(); ++k) {
      if (got.dtype() == DType::u8) {
        const auto *a = static_cast<const uint8_t*>(got.data()), *b = static_cast<const uint8_t*>(want.data());
        REQUIRE(std::abs(int{a[k]} - int{b[k]}) <= 1);
        others += a[k] != b[k];
      } else {
        REQUIRE(got.as<float>()[k] == Catch::Approx(want.as<float>()[k]).epsilon(1e-4).margin(1e-7));
      }
    }
    CHECK(others * 1000 <= got.numel());
    device.upload(own[i].second.data, want.data(), want.bytes());
  }
}

}  // namespace

void check_update(Device& device, const UpdateSetting& s) {
  INFO(s.name);
  FlatLayout layout;
  layout.add("w", {70, 61});
  layout.add("b", {33}).lr_factor = 0.5;
  layout.add("tail", {5000}).weight_decay = 0.3;
  layout.add("kernels", {7, 5, 3, 3});
  layout.add("wide", {13, 40});
  if (s.groups) {
    Chunk& waits = layout.add("waits", {90, 50});
    waits.from_step = 9;
    Chunk& apart = layout.add("apart", {40, 13});
    apart.clip_group = 1;
    apart.max_grad_norm = s.optimizer.clip_mode == ClipMode::value ? 0.02 : 0.3;
  }
  layout.arrange();
  const int64_t n = layout.size();
  std::mt19937_64 rng(7);
  std::normal_distribution<float> normal;
  std::vector<float> params(static_cast<size_t>(n)), grads(params.size());
  for (const Chunk& c : layout.chunks()) {
    for (int64_t i = 0; i < c.numel; ++i) params[static_cast<size_t>(c.offset + i)] = normal(rng);
  }
  const std::vector<double> lr{0.1, 0.05, 0.02};
  LaidOut<float> optimizer(s.optimizer, layout, params.data());
  LossScaler scaler(s.scale);

  const DeviceMemory p = device.allocate(n * 4), g = device.allocate(n * 4), copy = device.allocate(70 * 61 * 2),
                     term = device.allocate(4), seed = device.allocate(4);
  const DeviceMemory committed = device.allocate(12), staged = device.allocate(12);
  device.upload(p.get(), params.data(), n * 4);
  UpdateSpec spec;
  spec.optimizer = s.optimizer;
  spec.scale = scale_rule(s.scale);
  spec.lr = [&lr](int64_t t) { return lr[static_cast<size_t>(std::min<int64_t>(t, 2))]; };
  spec.max_steps = 30;
  const auto momentum = [](int64_t t) { return 0.95 - 0.01 * static_cast<double>(t); };
  if (s.cycled) spec.momentum = momentum;
  spec.params = static_cast<float*>(p.get());
  spec.grads = static_cast<float*>(g.get());
  spec.elements = n;
  spec.spans = update_spans(layout);
  spec.statistics.push_back({static_cast<float*>(committed.get()), static_cast<float*>(staged.get()), 3, -1});
  std::vector<float> curvature(s.optimizer.needs_hessian_diagonal() ? params.size() : 0);
  const DeviceMemory h = curvature.empty() ? DeviceMemory{} : device.allocate(n * 4);
  spec.curvature = static_cast<float*>(h.get());
  const float* const bend = curvature.empty() ? nullptr : curvature.data();
  const std::unique_ptr<DeviceUpdate> update = device.make_update(spec);
  update->set_state(scaler.state(), 0);
  const DType low = s.optimizer.rule == "sgd" ? DType::bf16 : DType::f16;
  update->set_copies({{0, Tensor{copy.get(), low, {70, 61}}}});

  int skipped = 0;
  float statistic = 0;
  for (int step = 0; step < 40; ++step) {
    const double reduced = step < 30 ? 1 : 0.5;
    if (step == 30) update->set_lr_scale(reduced);
    const float scale = scaler.scale();
    for (const Chunk& c : layout.chunks()) {
      for (int64_t i = 0; i < c.numel; ++i) grads[static_cast<size_t>(c.offset + i)] = normal(rng) * scale * 0.1f;
    }
    if (h && optimizer.steps() % static_cast<int64_t>(s.optimizer.settings.hessian_interval) == 0) {
      for (const Chunk& c : layout.chunks()) {
        for (int64_t i = 0; i < c.numel; ++i) curvature[static_cast<size_t>(c.offset + i)] = normal(rng);
      }
      if (step == 12) curvature[77] = INFINITY;
      device.upload(h.get(), curvature.data(), n * 4);
      update->average_curvature();
      optimizer.average_curvature(curvature.data());
    }
    const bool bad = step % 7 == 3 || step % 7 == 4, bad_statistic = step == 20;
    if (bad) grads[static_cast<size_t>(step % 2 ? n - 20 : 5)] = step % 3 ? INFINITY : NAN;
    device.upload(g.get(), grads.data(), n * 4);
    const float sums[3] = {1, bad_statistic ? INFINITY : static_cast<float>(step), 2},
                loss = 0.5f * static_cast<float>(step);
    device.upload(staged.get(), sums, 12);
    update->begin({0.25});
    update->seed(0, Tensor{seed.get(), DType::f32, {}});
    device.upload(term.get(), &loss, 4);
    update->add_term(0, Tensor{term.get(), DType::f32, {}});
    update->add_term(0, Tensor{term.get(), DType::f32, {}});
    bool bad_ascent = false;
    if (s.optimizer.sam_rho > 0) {
      bad_ascent = !optimizer.perturb(params.data(), grads.data(), scale);
      update->perturb();
      const HostTensor there = device.read(Tensor{p.get(), DType::f32, {n}});
      same("update, perturbed weights", there, params);
      if (bad_ascent) {  // the second pass may be finite
        for (float& x : grads) x = std::isfinite(x) ? x : 0;
        device.upload(g.get(), grads.data(), n * 4);
      }
      update->restore();
      optimizer.restore(params.data());
    }
    update->apply();

    float seeded = 0;
    device.download(&seeded, seed.get(), 4);
    CHECK(seeded == scale * 0.25f);
    if (s.cycled) optimizer.set_momentum(momentum(std::min<int64_t>(optimizer.steps(), 30)));
    optimizer.add_noise(grads.data(), scale);
    GradStats stats = optimizer.inspect(grads.data(), scale, bend);
    stats.found_inf |= bad_statistic || bad_ascent;
    if (optimizer.transforms_gradients()) optimizer.transform_gradients(params.data(), grads.data(), scale);
    const double rate = lr[static_cast<size_t>(std::min<int64_t>(optimizer.steps(), 2))] * reduced;
    if (optimizer.apply(params.data(), grads.data(), scale, stats, rate, bend)) statistic = static_cast<float>(step);
    const StepScale want = scaler.update(stats.found_inf);
    skipped += !want.applied;
    const std::optional<UpdateState> got = update->take(true);
    REQUIRE(got.has_value());
    REQUIRE(got->found_inf == !want.applied);
    CHECK(got->used_scale == want.used);
    CHECK(got->scale == scaler.state());
    CHECK(got->applied == optimizer.steps());
    CHECK(got->lr == rate);
    CHECK(got->terms[0] == step);
    if (!stats.found_inf) CHECK(got->norm == Catch::Approx(stats.norm).epsilon(1e-5));
    if (s.optimizer.quantized()) compare_own_state(device, *update, optimizer);
    float now[3];
    device.download(now, committed.get(), 12);
    CHECK(now[1] == statistic);
  }
  CHECK(skipped > 10);
  CHECK_FALSE(update->take(false).has_value());
  const HostTensor weights = device.read(Tensor{p.get(), DType::f32, {n}});
  same(cat("update, weights, ", s.name), weights, params);
  const auto state = optimizer.state();
  for (const auto& [which, name] : {std::pair{DeviceUpdate::Moment::m, "m"},
                                    {DeviceUpdate::Moment::v, "v"},
                                    {DeviceUpdate::Moment::u, "u"},
                                    {DeviceUpdate::Moment::slow, "slow"},
                                    {DeviceUpdate::Moment::ema, "ema"},
                                    {DeviceUpdate::average(1), "ema 2"},
                                    {DeviceUpdate::average(2), "ema 3"}}) {
    const auto span = update->moment(which);
    CHECK(span.has_value() == (state.count(std::string(name) + "/w") != 0));
    if (!span) continue;
    const HostTensor got = device.read(*span);
    for (const Chunk& c : layout.chunks()) {
      const HostTensor want = state.at(std::string(name) + '/' + c.name);
      // A sum of steps may cancel (rmsprop's buffer). The remainder then has the rounding error of its largest terms.
      double largest = 0;
      for (int64_t i = 0; i < c.numel; ++i)
        largest = std::max(largest, std::abs(static_cast<double>(want.as<float>()[i])));
      const double margin = 1e-7 + 2e-6 * largest;
      same(cat("update, ", name, ", ", s.name), got.as<float>() + c.offset, want.as<float>(), c.numel,
           [margin](double y) { return std::max(margin, 1e-4 * std::abs(y)); });
    }
  }
  compare_own_state(device, *update, optimizer);
  const HostTensor low_weights = device.read(Tensor{copy.get(), low, {70, 61}});
  const HostTensor want =
      HostTensor::of<float>({70, 61}, std::vector<float>(weights.as<float>(), weights.as<float>() + 70 * 61)).cast(low);
  CHECK(std::memcmp(low_weights.data(), want.data(), static_cast<size_t>(want.bytes())) == 0);
}

}  // namespace amp::test
