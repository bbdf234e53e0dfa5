// Runs with second-order optimizers, with wrapped optimizers (Lookahead, SAM) and with schedule-free ones. A resumed
// run must end with the same bytes as an uninterrupted one.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/text.h"
#include "run/prepare/memory.h"
#include "run/prepare/prepare.h"
#include "run/run.h"
#include "tests/errors.h"
#include "tests/run/lenet_run.h"
#include "tests/support.h"
#include "trainer/loop/checkpoint.h"

using namespace amp;
using amp::test::error_of;
using amp::test::TempDir;

namespace {

RunSpec small_run(const TempDir& f, const std::string& run, int64_t steps) {
  RunSpec spec = test::lenet_run(f, run, steps);
  spec.optimization.lr = 1e-2;
  spec.schedule.lr_scheduler = "constant";
  spec.output.save_steps = 1;
  return spec;
}

std::string bytes_of(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(f), {}};
}

double last_loss(const std::string& folder) {
  std::ifstream file(folder + "/eval.jsonl");
  double loss = NAN;
  for (std::string line; std::getline(file, line);) loss = nlohmann::json::parse(line).at("loss");
  return loss;
}

using Edit = void (*)(RunSpec&);
struct Case {
  const char* name;
  Edit edit;
};
constexpr Case kCases[] = {
    {"adahessian",
     [](RunSpec& s) {
       s.optimization.optimizer = "adahessian";
       s.optimization.optim_args = "eps=0.01,hessian_update_interval=2";
     }},
    {"adahessian in fp16, skipped steps",
     [](RunSpec& s) {
       s.optimization.optimizer = "adahessian";
       s.optimization.optim_args = "eps=0.01,hessian_update_interval=2";
       s.precision.use_fp16 = true;
       s.precision.inject_overflow = "2";
     }},
    {"sophia_h, Lookahead",
     [](RunSpec& s) {
       s.optimization.optimizer = "sophia_h";
       s.optimization.optim_args = "eps=0.01,rho=0.1,hessian_update_interval=3";
       s.optimization.lookahead = 2;
     }},
    {"sophia_g in fp16, skipped steps",
     [](RunSpec& s) {
       s.optimization.optimizer = "sophia_g";
       s.optimization.optim_args = "rho=10,hessian_update_interval=2";
       s.optimization.lr = 3e-3;
       s.precision.use_fp16 = true;
       s.precision.inject_overflow = "2";
     }},
    {"adamw, SAM, Lookahead, EMA in fp16",
     [](RunSpec& s) {
       s.optimization.sam_rho = 0.05;
       s.optimization.lookahead = 3;
       s.optimization.ema_decay = {"0.9"};
       s.precision.use_fp16 = true;
     }},
    {"adamw in 8 bits",
     [](RunSpec& s) {
       s.optimization.optim_bits = 8;
       s.optimization.gradient_centralization = true;
       s.optimization.clip_mode = "agc";
       s.optimization.max_grad_norm = 0.1;
     }},
    {"muon", [](RunSpec& s) { s.optimization.optimizer = "muon"; }},
    {"adafactor, averaged, EMA, Lookahead in fp16",
     [](RunSpec& s) {
       s.optimization.optimizer = "adafactor";
       s.optimization.optim_args = "beta1=0.5";
       s.optimization.lookahead = 3;
       s.optimization.ema_decay = {"0.9"};
       s.precision.use_fp16 = true;
       s.precision.inject_overflow = "2";
     }},
    {"adamw, tensors that wait, a clipping norm of their own",
     [](RunSpec& s) {
       s.optimization.param_group = {"0.*: unfreeze_step=2", "3.*: unfreeze_step=5", "11.*: max_grad_norm=0.1"};
     }},
    {"stochastic weight averaging, gradient noise",
     [](RunSpec& s) {
       s.optimization.swa_start = 2;
       s.optimization.swa_lr = 0.01;
       s.optimization.swa_anneal_steps = 3;
       s.optimization.ema_every = 2;
       s.optimization.gradient_noise = 0.01;
       s.output.export_weights = "ema";
     }},
    {"schedule_free_adamw", [](RunSpec& s) { s.optimization.optimizer = "schedule_free_adamw"; }},
};

}  // namespace

TEST_CASE("runs with rules around rules and of the second order go on where they stopped", "[resume]") {
  for (const Case& c : kCases) {
    INFO(c.name);
    const TempDir f;
    RunSpec whole = small_run(f, "whole", 7), part = small_run(f, "run", 4), rest = small_run(f, "run", 7);
    for (RunSpec* s : {&whole, &part, &rest}) c.edit(*s);
    train(*prepare(whole));
    train(*prepare(part));
    rest.output.resume = "auto";
    train(*prepare(rest));
    CHECK(bytes_of(f / "run/model.onnx") == bytes_of(f / "whole/model.onnx"));
    CHECK(last_loss(f / "run") == last_loss(f / "whole"));
    CHECK(last_loss(f / "whole") < 2.2);  // less than the first loss, 2.28
  }
}

TEST_CASE("a schedule-free run exports where it was evaluated, and keeps where it trains") {
  const TempDir f;
  RunSpec spec = small_run(f, "run", 6);
  spec.optimization.optimizer = "schedule_free_adamw";
  const TrainReport report = train(*prepare(spec));
  REQUIRE(report.result.last.has_value());
  CHECK(report.result.last->loss == Catch::Approx(last_loss(f / "run")).epsilon(1e-6));
  RunSpec exported = small_run(f, "again", 0);
  exported.model.model = f / "run/model.onnx";
  exported.optimization.lr = 0;
  exported.schedule.max_steps = 1;
  train(*prepare(exported));
  CHECK(last_loss(f / "again") == Catch::Approx(last_loss(f / "run")).epsilon(1e-6));
  const Checkpoint c = load_checkpoint(checkpoint_path(f / "run/checkpoints", 6));
  size_t apart = 0;
  for (const auto& [name, t] : c.tensors) {
    if (name.rfind("param/", 0) != 0) continue;
    const auto trained = c.tensors.find("training/" + name.substr(6));
    REQUIRE(trained != c.tensors.end());
    apart += t.to_doubles() != trained->second.to_doubles();
  }
  CHECK(apart > 3);
}

TEST_CASE("settings of wrappers are refused with their range, before anything is read", "[settings]") {
  const TempDir f;
  RunSpec spec = small_run(f, "run", 1);
  spec.optimization.optimizer = "schedule_free_adamw";
  spec.optimization.lookahead = 5;
  const Error e = error_of([&] { prepare(spec); });
  CHECK(e.exit() == Exit::usage);
  CHECK(e.fact().find("`lookahead`") != std::string::npos);
  spec.optimization.lookahead = 0;
  spec.optimization.optimizer = "adahessian";
  spec.optimization.optim_args = "hessian_pwer=1";
  CHECK(error_of([&] { prepare(spec); }).hint().find("hessian_power") != std::string::npos);
}

TEST_CASE("moments in 8 bits take a quarter, and are what a checkpoint holds") {
  const TempDir f;
  RunSpec wide = small_run(f, "wide", 1), narrow = small_run(f, "narrow", 1);
  narrow.optimization.optim_bits = 8;
  train(*prepare(wide));
  train(*prepare(narrow));
  const auto moments = [&](const std::string& run) {
    int64_t bytes = 0;
    for (const auto& [name, t] : load_checkpoint(checkpoint_path(f / run + "/checkpoints", 1)).tensors) {
      if (name[0] == 'm' || name[0] == 'v') bytes += t.bytes();
    }
    return bytes;
  };
  const auto estimate = [](const RunSpec& spec) {
    const std::unique_ptr<PreparedRun> run = prepare(spec, {}, Mode::estimate);
    return memory_bill(session_options(run->spec, Job::train, run->plan, {}), run->graph(), run->config, run->data)
        .training.text();
  };
  // LeNet has 61,706 weights, of which 3,626 are in tensors of fewer than 4096 elements
  INFO(moments("wide") << ' ' << moments("narrow") << ' ' << estimate(narrow));
  CHECK(moments("narrow") < 0.32 * static_cast<double>(moments("wide")));
  CHECK(estimate(narrow).find(cat("moments ", with_thousands(moments("narrow")), " B")) != std::string::npos);
}

TEST_CASE("a checkpoint of another rule is refused by name", "[resume]") {
  const TempDir f;
  train(*prepare(small_run(f, "run", 2)));
  RunSpec other = small_run(f, "run", 3);
  other.optimization.optimizer = "adahessian";
  other.output.resume = "auto";
  const Error e = error_of([&] { prepare(other); });
  CHECK(e.exit() == Exit::checkpoint);
  CHECK(e.fact().find("optimizer was adamw, is adahessian") != std::string::npos);
}
