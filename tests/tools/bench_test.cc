// The verb bench: its counts, that its times add up, its trace and its exit codes.
#include <catch2/catch_all.hpp>
#include <filesystem>

#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using nlohmann::json;

namespace {

// LeNet-5: 28x28 pixels, convolutions of 5x5 to 6 (with a border of 2) and 16 channels, layers 400-120-84-10.
constexpr double kConv1 = 2.0 * 28 * 28 * 6 * 25, kConv2 = 2.0 * 10 * 10 * 16 * 150,
                 kLayers = 2.0 * (400 * 120 + 120 * 84 + 84 * 10);
// Operations of a step: forward, gradients of weights, and gradients of inputs except the image.
constexpr double kStep = 3 * (kConv1 + kConv2 + kLayers) - kConv1;

std::vector<std::string> bench_lenet(const std::vector<std::string>& more) {
  std::vector<std::string> words{
      "bench", test::test_data("zoo/lenet_relu_dyn18") + "/model.onnx", "--device", "cpu", "--dropout", "0", "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

double total(const json& rows, const char* key) {
  double sum = 0;
  for (const json& r : rows) sum += r.at(key).get<double>();
  return sum;
}

}  // namespace

TEST_CASE("bench counts a step's operations and its times add up", "[bench]") {
  const test::Said said = test::must_run(bench_lenet({"--timed_steps", "2", "--batch_size", "4", "--threads", "1"}));
  const json r = json::parse(said.out);
  CHECK(r.at("synthetic") == true);
  CHECK(total(r.at("kinds"), "flops") == 4 * kStep);
  CHECK(total(r.at("kernels"), "flops") == 4 * kStep);
  const double seconds = r.at("step_seconds");
  const double parts = total(r.at("kernels"), "seconds") + r.at("update").at("seconds").get<double>() +
                       r.at("rest_seconds").get<double>();
  CHECK(parts == Catch::Approx(seconds).epsilon(1e-9));
  for (const json& kind : r.at("kinds")) {
    INFO(kind.dump());
    json own = json::array();
    for (const json& kernel : r.at("kernels")) {
      if (kernel.at("operator") == kind.at("operator")) own.push_back(kernel);
    }
    for (const char* key : {"calls", "flops", "bytes"}) CHECK(total(own, key) == kind.at(key).get<double>());
  }
  CHECK(total(r.at("kinds"), "seconds") == Catch::Approx(total(r.at("kernels"), "seconds")).epsilon(1e-9));
  CHECK(r.at("peak_flops_per_second").get<double>() > 0);
  CHECK(r.at("threads") == 1);
  // AdamW reads gradients twice, and reads and writes weights and both moments: 8 accesses of 4 bytes per parameter.
  const int64_t parameters = 6 * 25 + 6 + 16 * 150 + 16 + 400 * 120 + 120 + 120 * 84 + 84 + 84 * 10 + 10;
  CHECK(r.at("update").at("bytes").get<int64_t>() >= 32 * parameters);
  CHECK(r.at("update").at("bytes").get<int64_t>() < 33 * parameters);  // parameters begin at multiples of a cache line
}

TEST_CASE("bench takes a training job's data and accumulation", "[bench]") {
  const std::string batch = test::test_data("zoo/lenet_relu_dyn18") + "/batch.safetensors";
  const auto run = [&](const char* micro_batches) {
    return json::parse(
        test::must_run(bench_lenet({"--train", batch, "--loss", "cross_entropy", "--batch_size", "2", "--timed_steps",
                                    "1", "--gradient_accumulation_steps", micro_batches}))
            .out);
  };
  const json one = run("1"), two = run("2");
  CHECK(one.at("synthetic") == false);
  CHECK(total(one.at("kernels"), "flops") == 2 * kStep);
  CHECK(total(two.at("kernels"), "flops") == 4 * kStep);
  CHECK(two.at("kernels").at(0).at("calls") == 2);
}

TEST_CASE("bench writes a trace whose events nest", "[bench]") {
  const test::TempDir folder;
  test::must_run(bench_lenet({"--timed_steps", "3", "--trace", folder / "trace.json"}));
  std::ifstream in(folder / "trace.json");
  const json trace = json::parse(in);
  struct Span {
    std::string name;
    double begin, end;
  };
  std::vector<Span> open;
  int steps = 0, kernels = 0;
  for (const json& e : trace.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    const double begin = e.at("ts"), end = begin + e.at("dur").get<double>();
    REQUIRE(end >= begin);
    constexpr double kRounding = 1e-6;  // in microseconds: times are summed as seconds in double, which rounds
    while (!open.empty() && open.back().end <= begin + kRounding) open.pop_back();
    if (!open.empty()) CHECK(end <= open.back().end + kRounding);
    const std::string name = e.at("name");
    if (e.at("cat") == "step") {
      CHECK(open.empty());
      ++steps;
    } else if (name == "micro-batch" || name == "update") {
      REQUIRE(open.size() == 1);
      CHECK(open[0].name == cat("step ", steps));
    } else {
      REQUIRE(open.size() == 2);
      CHECK(open[1].name == "micro-batch");
      ++kernels;
    }
    open.push_back({name, begin, end});
  }
  CHECK(steps == 3);
  CHECK(kernels % 3 == 0);
  CHECK(kernels > 30);
}

TEST_CASE("bench ends with the documented exit codes", "[bench]") {
  const test::TempDir folder;
  CHECK(test::run_verb({"bench"}).code == 2);
  CHECK(test::run_verb(bench_lenet({"--timed_steps", "0"})).code == 2);
  const test::Said ranks = test::run_verb(bench_lenet({"--ranks", "2"}));
  CHECK(ranks.code == 2);
  CHECK(ranks.id == "E_RANKS_SETTING");
  CHECK(test::run_verb({"bench", folder / "none.onnx"}).code == 2);
  const test::Said spans = test::run_verb(bench_lenet({"--loss", "qa_span"}));
  CHECK(spans.code == 2);
  CHECK(test::run_verb(bench_lenet({"--timed_steps", "1", "--trace", folder / "no/such/trace.json"})).code == 7);
}

TEST_CASE("bench makes token ids that the tables have, and texts as long as asked", "[bench]") {
  const test::Said said =
      test::must_run({"bench", test::test_data("zoo/bert_cls_sdpa_dyn18") + "/model.onnx", "--device", "cpu", "--json",
                      "--timed_steps", "1", "--batch_size", "3", "--max_seq_len", "7"});
  const json r = json::parse(said.out);
  CHECK_THAT(r.at("batch").get<std::string>(), Catch::Matchers::ContainsSubstring("[3,7]"));
  CHECK(total(r.at("kernels"), "flops") > 0);
}
