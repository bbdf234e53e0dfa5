// The guard of padding removal with fp16 plans: a difference that only 16 bits have is a rounding error, a difference
// in fp32 is padding that is read.
#include <catch2/catch_all.hpp>
#include <cmath>

#include "padding_cases.h"
#include "padding_models.h"
#include "small_run.h"
#include "trainer/compile/padding_removal.h"
#include "trainer/compile/session.h"

using namespace amp;
using namespace amp::test;

namespace {

PaddingCase plain_case() {
  std::vector<PaddingCase> cases = padding_cases();
  return *std::find_if(cases.begin(), cases.end(),
                       [](const PaddingCase& c) { return c.name == "mask plain, first token"; });
}

// Returns the fp16 loss of a token whose label has the logit `label` and whose two other classes have the logit
// `other`, after the last matrix product added one rounding.
double half_loss(double label, double other, double rounding) {
  const auto rounded = [](double x) { return static_cast<double>(static_cast<float>(Half(static_cast<float>(x)))); };
  return std::log1p(2 * std::exp(rounded(other) - rounded(label + rounding)));
}

}  // namespace

TEST_CASE("in 16 bits a difference decides only if fp32 has it", "[padding]") {
  const PaddingCase c = plain_case();
  const SourceGraph g = random_graph(c.text, c.scales);
  SessionOptions o;
  o.low = DType::f16;
  o.compute.assign(g.nodes.size(), DType::f16);
  std::vector<std::string> warnings;
  const Log log([&](Level level, const std::string& text) {
    if (level == Level::warning) warnings.push_back(text);
  });
  const ParamTable table(g);
  ParameterArena arena(g, table, *o.device, o.float_type, o.decay_exclude, o.batchnorm_train);
  const GraphCompiler compiler(g, table, o, o.device->traits());
  const RunState state;
  ProgramCache programs(compiler, arena, state, 0, log);
  PaddingRemoval removal(compiler, programs, state, true, log);
  const Tensors batch = c.batch({9, {5, 2, 4, 3}, 0});
  const Losses losses{c.loss};
  const GraphRequest r{GraphForm::eval, &losses, {}, batch};
  REQUIRE(removal.packing(r, false));

  // One rounding of a logit between 32 and 64 (2^-5 is the distance of two numbers) changes a loss near 0 by more than
  // the tolerance of 16 bits; fp32 rounds to 2^-19.
  const double padded = half_loss(40, 32, 0), packed = half_loss(40, 32, 2 * 0x1p-5);
  REQUIRE(PaddingGuard::compare(LossesAndOutputs{{padded}, {}}, LossesAndOutputs{{packed}, {}}, {}, {}, true) ==
          PaddingGuard::Verdict::different);
  const bool leak = GENERATE(false, true);
  int full = 0;  // number of results in fp32
  const auto run = [&](const GraphRequest& asked, const Packing* packing) {
    full += asked.form == GraphForm::eval_full;
    const bool differs = packing && (asked.form == GraphForm::eval || leak);
    return LossesAndOutputs{{differs ? packed : padded}, {}};
  };
  for (int evaluation = 0; evaluation < 4; ++evaluation) CHECK(removal.agrees(r, run) == (!leak || evaluation > 0));
  CHECK(full == (leak ? 2 : 6));  // two graphs per comparison: 1 or 3 comparisons
  CHECK(removal.guard().off() == leak);
  CHECK(warnings.size() == (leak ? 1 : 0));
}

// Scores of 1e5 and more: -10000 does not mask them. The head computes in fp16.
TEST_CASE("padding that is read ends padding removal with an fp16 plan, too", "[padding]") {
  PaddingCase c = plain_case();
  const size_t at = c.text.find("s1 = Mul(s0, half)");
  REQUIRE(at != std::string::npos);
  c.text.replace(at, 18, "const huge = 1e6\ns1 = Mul(s0, huge)");
  const SourceGraph g = random_graph(c.text, c.scales);
  SessionOptions o;
  o.low = DType::f16;
  o.compute.assign(g.nodes.size(), DType::f32);
  o.compute.back() = DType::f16;
  std::vector<std::string> warnings;
  o.log = Log([&](Level level, const std::string& text) {
    if (level == Level::warning) warnings.push_back(text);
  });
  Session s(g, o);
  const Tensors batch = c.batch({9, {5, 2, 4, 3}, 0});
  REQUIRE(s.packs(c.loss, batch));
  s.eval_micro_batch(c.loss, batch);
  CHECK(s.padding_guard().off());
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].starts_with("W_PADDING"));
}
