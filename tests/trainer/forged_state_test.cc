// Checkpoints with valid checksums whose state no run has: Trainer::resume() refuses them.
#include <catch2/catch_all.hpp>
#include <nlohmann/json.hpp>

#include "tests/errors.h"
#include "tests/trainer/ranked_run.h"

using namespace amp;

TEST_CASE("a state whose counts no run has is refused", "[resume]") {
  const test::TempDir folder;
  test::RankedRun job(folder.path);
  job.config.max_steps = 6;
  job.run(1, 8);
  const Checkpoint good = find_latest(folder / "checkpoints").checkpoint;
  REQUIRE(good.step > 0);
  const auto refused = [&](const std::string& pointer, const nlohmann::json& value) {
    Checkpoint c = good;
    nlohmann::json state = nlohmann::json::parse(c.state);
    state[nlohmann::json::json_pointer(pointer)] = value;
    c.state = state.dump();
    return test::error_of([&] { job.run(1, 8, &c); }).id();
  };
  const auto [pointer, value] = GENERATE(table<const char*, const char*>({{"/sampler/epoch", "-1"},
                                                                          {"/sampler/epoch", "9223372036854775807"},
                                                                          {"/sampler/window", "-1"},
                                                                          {"/applied_steps", "-1"},
                                                                          {"/applied_steps", "1000"},
                                                                          {"/best/evals_since", "-1"},
                                                                          {"/best", "[]"},
                                                                          {"/scaler/scale", "\"x\""}}));
  INFO(pointer << " = " << value);
  CHECK(refused(pointer, nlohmann::json::parse(value)) == "E_CKPT_MANIFEST");
}
