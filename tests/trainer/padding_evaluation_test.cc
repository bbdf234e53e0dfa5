// Padding removal in evaluation: outputs and losses equal those of the padded graph, also if the graph does not prove
// that they do. Non-finite values are those of the padded graph, as an inference engine computes them.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <limits>

#include "padding_cases.h"
#include "padding_models.h"
#include "small_run.h"
#include "trainer/compile/padding_guard.h"

using namespace amp;
using namespace amp::test;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinite = std::numeric_limits<double>::infinity();

const PaddingCase& case_named(const std::vector<PaddingCase>& cases, const std::string& name) {
  return *std::find_if(cases.begin(), cases.end(), [&](const PaddingCase& c) { return c.name == name; });
}

LossesAndOutputs result(double loss, const Dims& dims, const std::vector<double>& y) {
  return {{loss}, {{"y", HostTensor::of<double>(dims, y)}}};
}

}  // namespace

TEST_CASE("what a comparison of outputs says", "[padding]") {
  using Verdict = PaddingGuard::Verdict;
  const auto said = [](const LossesAndOutputs& padded, const LossesAndOutputs& packed,
                       const std::map<std::string, TokenForm>& tokens = {}) {
    return PaddingGuard::compare(padded, packed, tokens, {2, 1}, false);
  };
  const Dims rows{2, 2}, tokens{2, 3, 1};
  CHECK(said(result(1, rows, {1, 2, 3, 4}), result(1, rows, {1, 2, 3, 4})) == Verdict::equal);
  CHECK(said(result(1, rows, {1, 2, 3, 4}), result(1, rows, {1, 2, 3, 4.1})) == Verdict::different);
  CHECK(said(result(1, rows, {1, 2, 3, 4}), result(1.1, rows, {1, 2, 3, 4})) == Verdict::different);
  CHECK(said(result(1, rows, {1, 2, 3, 4}), result(kNan, rows, {1, 2, 3, 4})) == Verdict::different);
  CHECK(said(result(kNan, rows, {1, 2, 3, kNan}), result(1, rows, {1, 2, 3, 4})) == Verdict::different);
  CHECK(said(result(kNan, rows, {1, 2, 3, kNan}), result(kNan, rows, {1, 2, 3, kNan})) == Verdict::equal);
  CHECK(said(result(1, rows, {1, 2, 3, -kInfinite}), result(1, rows, {1, 2, 3, -kInfinite})) == Verdict::equal);
  CHECK(said(result(1, rows, {1, 2, 3, -kInfinite}), result(1, rows, {1, 2, 3, -4})) == Verdict::different);
  CHECK(said(result(0, rows, {0, 0, 0, 0}), result(0, rows, {0, 0, 0, 0})) == Verdict::says_nothing);
  // (sample, position): the third position of the first sample and two of the second are padding.
  const std::map<std::string, TokenForm> by_token{{"y", {1, false}}};
  CHECK(said(result(1, tokens, {1, 2, 7, 3, 8, 9}), result(1, tokens, {1, 2, 0, 3, 0, kNan}), by_token) ==
        Verdict::equal);
  CHECK(said(result(1, tokens, {1, 2, 7, 3, 8, 9}), result(1, tokens, {1, 2.1, 7, 3, 8, 9}), by_token) ==
        Verdict::different);
  const std::map<std::string, TokenForm> flat{{"y", {1, true}}};
  CHECK(said(result(1, {6}, {1, 2, 7, 3, 8, 9}), result(1, {6}, {1, 2, 0, 3, 0, 0}), flat) == Verdict::equal);
  CHECK(said(result(1, {6}, {1, 2, 7, 3, 8, 9}), result(1, {6}, {1, 2, 7, 4, 8, 9}), flat) == Verdict::different);
}

TEST_CASE("when evaluations are compared", "[padding]") {
  PaddingGuard guard;
  for (int i = 0; i < 3; ++i) {
    CHECK(guard.due_evaluation());
    CHECK(!guard.on_evaluation(PaddingGuard::Verdict::equal));
  }
  int due = 0;
  for (int i = 3; i <= 128; ++i) due += guard.due_evaluation();
  CHECK(due == 2);
  CHECK(guard.on_evaluation(PaddingGuard::Verdict::different));
  CHECK(guard.off());
  CHECK(!guard.due_evaluation());
}

// Scores of 1e5 and more: -10000 does not mask them. This is detected in the first evaluated batch, not in the graph.
TEST_CASE("a mask that is too weak for the scores ends padding removal in evaluation", "[padding]") {
  PaddingCase c = case_named(padding_cases(), "mask plain, first token");
  const size_t at = c.text.find("s1 = Mul(s0, half)");
  REQUIRE(at != std::string::npos);
  c.text.replace(at, 18, "const huge = 1e6\ns1 = Mul(s0, huge)");
  const SourceGraph g = random_graph(c.text, c.scales);
  SessionOptions keeps = c.options;
  keeps.remove_padding = false;
  std::vector<std::string> warnings;
  c.options.log = Log([&](Level level, const std::string& text) {
    if (level == Level::warning) warnings.push_back(text);
  });
  Session with(g, keeps), without(g, c.options);
  const Tensors batch = c.batch({9, {5, 2, 4, 3}, 0});
  REQUIRE(without.packs(c.loss, batch));
  Tensors a, b;
  const std::vector<double> want = with.eval_micro_batch(c.loss, batch, &a),
                            got = without.eval_micro_batch(c.loss, batch, &b);
  CHECK(want == got);
  CHECK(a.at("y").to_doubles() == b.at("y").to_doubles());
  CHECK(without.padding_guard().off());
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].starts_with("W_PADDING"));
}
