// Tests checkpoints with correct checksums and wrong numbers: every member of the state and every tensor is damaged in
// turn. A resumed run must refuse them with the member's name, before it changes anything.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "run/run.h"
#include "tests/errors.h"
#include "tests/run/lenet_run.h"
#include "tests/support.h"
#include "trainer/loop/checkpoint.h"

using namespace amp;
using amp::test::error_of;
using amp::test::TempDir;
using nlohmann::json;

namespace {

constexpr int64_t kSteps = 3;

RunSpec spec_of(const TempDir& f, int64_t steps = kSteps) {
  RunSpec spec = test::lenet_run(f, "run", steps);
  spec.schedule.lr_scheduler = "reduce_lr_on_plateau";
  spec.evaluation.eval_steps = 1;
  spec.optimization.optimizer = "schedule_free_adamw";
  return spec;
}

// A run's last checkpoint, which tests replace.
class Saved {
 public:
  Saved() : before_(trained()) {}

  // Resumes from a checkpoint with this state or these tensors; returns the error.
  Error refused(const Checkpoint& damaged) {
    save_checkpoint(checkpoints(), damaged, {0, -1, nullptr});
    RunSpec spec = spec_of(f_, kSteps + 1);
    spec.output.resume = checkpoint_path(checkpoints(), kSteps);
    return error_of([&] { train(*prepare(spec)); });
  }
  void check_refused(const Checkpoint& damaged, const std::string& name) {
    INFO(damaged.state);
    const Error e = refused(damaged);
    CHECK(e.exit() == Exit::checkpoint);
    CHECK(e.id() == "E_CKPT_STATE");
    INFO(e.what());
    CHECK(e.fact().find("'" + name + "'") != std::string::npos);
  }
  Checkpoint with(const std::string& pointer, const json& value) const {
    Checkpoint c = before_;
    json state = json::parse(c.state);
    state[json::json_pointer(pointer)] = value;
    c.state = state.dump();
    return c;
  }
  const Checkpoint& before() const { return before_; }

 private:
  std::string checkpoints() const { return f_ / "run/checkpoints"; }
  Checkpoint trained() {
    train(*prepare(spec_of(f_)));
    return load_checkpoint(checkpoint_path(checkpoints(), kSteps));
  }

  TempDir f_;
  Checkpoint before_;
};

// Returns a member's name in errors: 'scaler.scale' for "/scaler/scale"; members of lists have the name of the list.
std::string name_of(std::string pointer) {
  while (!pointer.empty() && std::isdigit(static_cast<unsigned char>(pointer.back())))
    pointer.resize(pointer.find_last_of('/'));
  std::replace(pointer.begin(), pointer.end(), '/', '.');
  return pointer.substr(1);
}

}  // namespace

TEST_CASE("every member of a checkpoint's state is checked", "[resume]") {
  Saved saved;
  const json leaves = json::parse(saved.before().state).flatten();
  CHECK(leaves.size() > 25);
  size_t count = 0;
  for (const auto& [pointer, value] : leaves.items()) {
    INFO(pointer);
    if (value.is_string()) continue;
    saved.check_refused(saved.with(pointer, "x"), name_of(pointer));
    if (value.is_number_integer()) {
      const json odd[] = {-1e308, std::numeric_limits<int64_t>::min(), std::numeric_limits<uint64_t>::max()};
      saved.check_refused(saved.with(pointer, odd[count++ % 3]), name_of(pointer));
    }
  }
}

TEST_CASE("numbers of a checkpoint's state that contradict its step are refused", "[resume]") {
  Saved saved;
  const std::vector<std::pair<std::string, json>> cases = {{"/applied_steps", -1},
                                                           {"/applied_steps", kSteps + 1},
                                                           {"/sampler/epoch", -1},
                                                           {"/sampler/epoch", kSteps + 1},
                                                           {"/sampler/window", -1},
                                                           {"/best/step", kSteps + 1},
                                                           {"/best/step", -2},
                                                           {"/best/evals_since", -1},
                                                           {"/best/evals_since", kSteps + 1},
                                                           {"/scaler/scale", -1},
                                                           {"/scaler/scale", 1e39},
                                                           {"/scaler/growth_tracker", -1},
                                                           {"/scaler/total_skips", -1},
                                                           {"/scaler/consecutive_skips", 9},
                                                           {"/scaler/hysteresis_left", 1e10},
                                                           {"/plateau/scale", 2},
                                                           {"/plateau/scale", -0.5},
                                                           {"/plateau/bad", -1},
                                                           {"/plateau/cooldown", -1},
                                                           {"/initial/samples", -1},
                                                           {"/last/samples", -1e308},
                                                           {"/last/values", {{"a\x1b", 1}}},
                                                           {"/last/brief", -1},
                                                           {"/last/details", "[1]"},
                                                           {"/schedule/begin", 9},
                                                           {"/schedule/max_steps", 2},
                                                           {"/schedule/steps", 4},
                                                           {"/losses_not_finite", 9},
                                                           {"/losses_not_finite", -1}};
  for (const auto& [pointer, value] : cases) {
    INFO(pointer);
    saved.check_refused(saved.with(pointer, value), name_of(pointer));
  }
}

TEST_CASE("a checkpoint's tensors are finite", "[resume]") {
  Saved saved;
  for (const auto& [name, tensor] : saved.before().tensors) {
    if (!is_float(tensor.dtype()) || tensor.numel() == 0) continue;
    Checkpoint c = saved.before();
    HostTensor copy = HostTensor::empty(tensor.dtype(), tensor.dims());
    std::memcpy(copy.mutable_data(), tensor.data(), static_cast<size_t>(tensor.bytes()));
    copy.as_mutable<float>()[tensor.numel() - 1] = name[0] == 'v' ? std::nanf("") : HUGE_VALF;
    c.tensors[name] = copy;
    saved.check_refused(c, name);
  }
}
