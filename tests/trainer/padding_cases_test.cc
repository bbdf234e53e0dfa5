// Every case of padding_cases.h for ten batches of two lengths. Losses and gradients in training form, and losses in
// evaluation form, equal those of a session that keeps its padding. Batches are packed exactly where the case requires
// it.
#include "padding_cases.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <set>

#include "base/text.h"
#include "small_run.h"
#include "trainer/compile/padding_guard.h"
#include "trainer/loop/micro_batches.h"

using namespace amp;
using namespace amp::test;

namespace {

constexpr double kTolerance = 1e-5;  // relative to the largest gradient: fp32 sums in another order

CaseBatch shape_of(const PaddingCase& c, int step) {
  const bool one_length = c.text.find("param B1") != std::string::npos || c.text.find("param B2") != std::string::npos;
  CaseBatch b;
  b.step = step;
  b.length = one_length || step % 4 < 2 ? 9 : 8;  // another length, because 8 is also the width
  if (step < 5)
    b.lengths = {5, 2, 4, 3};
  else
    b.lengths = {b.length, 1, 6, 3 + step % 3};
  return b;
}

std::vector<double> gradients(Session& s) {
  std::vector<double> all;
  for (int slot = 0; slot < static_cast<int>(s.table().size()); ++slot) {
    if (!s.has_grad(slot)) continue;
    const std::vector<double> g = s.grad(slot).to_doubles();
    all.insert(all.end(), g.begin(), g.end());
  }
  return all;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double top = 1e-12, apart = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(std::isfinite(a[i]));
    top = std::max(top, std::abs(a[i]));
    apart = std::max(apart, std::abs(a[i] - b[i]));
  }
  return apart / top;
}

SourceGraph model_of(const PaddingCase& c) {
  SourceGraph g = random_graph(c.text, c.scales);
  for (SourceValue& v : g.values) {
    if (v.name == "mean" || v.name == "var") v.trainable = false;
  }
  return g;
}

}  // namespace

TEST_CASE("whatever is packed has the padded graph's losses and gradients", "[padding][cases]") {
  const std::vector<PaddingCase> cases = padding_cases();
  std::set<std::string> names;
  for (const PaddingCase& c : cases) names.insert(c.name);
  CHECK(names.size() == cases.size());
  CHECK(cases.size() >= 60);
  for (const PaddingCase& c : cases) {
    INFO(c.name);
    const SourceGraph g = model_of(c);
    SessionOptions keeps = c.options;
    keeps.remove_padding = false;
    Session with(g, keeps), without(g, c.options);
    with.prepare(c.loss, c.batch(shape_of(c, 0)));
    without.prepare(c.loss, c.batch(shape_of(c, 0)));
    for (int step = 0; step < 10; ++step) {
      INFO("batch " << step);
      const Tensors batch = c.batch(shape_of(c, step));
      const bool packs = without.packs(c.loss, batch);
      if (c.packed != PaddingCase::some) CHECK(packs == (c.packed == PaddingCase::all));
      CHECK(!with.packs(c.loss, batch));
      LossAccumulator window{Losses(c.loss)};
      std::vector<double> sums[2];
      for (Session* s : {&with, &without}) {
        s->state().step = step;
        s->stage_statistics();
        sums[s == &without] =
            run_micro_batch(*s, c.loss, batch, std::vector<double>(term_weights(c.loss).size(), 0.25), false);
      }
      CHECK(distance(sums[0], sums[1]) <= kTolerance);
      CHECK(distance(gradients(with), gradients(without)) <= kTolerance);
      CHECK(distance(with.eval_micro_batch(c.loss, batch), without.eval_micro_batch(c.loss, batch)) <= kTolerance);
    }
    CHECK(!without.padding_guard().off());
  }
}

TEST_CASE("what a comparison of gradients says", "[padding]") {
  using Verdict = PaddingGuard::Verdict;
  const auto of = [](double loss, std::vector<double> gradient) {
    const auto n = static_cast<int64_t>(gradient.size());
    return LossesAndGradients{{loss}, {HostTensor::of<double>({n}, gradient)}};
  };
  const auto said = [&](const LossesAndGradients& padded, const LossesAndGradients& packed, bool low = false) {
    return PaddingGuard::compare(padded, packed, low);
  };
  CHECK(said(of(2, {1, -3}), of(2, {1, -3})) == Verdict::equal);
  CHECK(said(of(2, {1, -3}), of(2, {1, -3.1})) == Verdict::different);
  CHECK(said(of(2, {1, -3}), of(2.1, {1, -3})) == Verdict::different);
  CHECK(said(of(2, {1, -3}), of(2, {1, -3.1}), true) == Verdict::equal);
  CHECK(said(of(0, {1, -3}), of(0, {1, -3})) == Verdict::says_nothing);  // zero losses prove nothing
  CHECK(said(of(2, {0, 0}), of(2, {0, 0})) == Verdict::says_nothing);    // zero gradients prove nothing
  CHECK(said(of(std::nan(""), {1}), of(2, {1})) == Verdict::says_nothing);
  CHECK(said(of(2, {1}), of(std::nan(""), {1})) == Verdict::different);
  CHECK(said(of(2, {1}), of(2, {std::nan("")})) == Verdict::different);
}

TEST_CASE("when gradients are compared", "[padding]") {
  PaddingGuard guard;
  RunState state;
  CHECK(guard.due(state));
  CHECK(!guard.due(state));  // due only once per step
  guard.on_verdict(PaddingGuard::Verdict::says_nothing);
  for (int64_t step = 1; step <= 3; ++step) {
    state.step = step;
    state.samples_before = 4;
    CHECK(!guard.due(state));
    state.samples_before = 0;
    CHECK(guard.due(state));
    guard.on_verdict(PaddingGuard::Verdict::equal);
  }
  state.step = 4;
  CHECK(!guard.due(state));
  PaddingGuard resumed;  // a resumed run compares in the same steps
  resumed.restore(guard.counts());
  CHECK(!resumed.due(state));
  state.step = 256;
  CHECK(guard.due(state));
  CHECK(resumed.due(state));
  guard.on_verdict(PaddingGuard::Verdict::different);
  CHECK(guard.off());
  state.step = 512;
  CHECK(!guard.due(state));
}

TEST_CASE("rows for a comparison of gradients", "[padding]") {
  const std::vector<int64_t> lengths{3, 5, 1, 4, 2, 5};
  std::vector<int64_t> mask, row;
  for (size_t b = 0; b < lengths.size(); ++b) {
    row.push_back(static_cast<int64_t>(b));
    for (int64_t s = 0; s < 5; ++s) mask.push_back(s < lengths[b]);
  }
  const Tensors batch{{"mask", HostTensor::of<int64_t>({6, 5}, mask)}, {"row", HostTensor::of<int64_t>({6}, row)}};
  CHECK(few_rows(LossSpec{}, batch, batch.at("mask")).at("row").to_ints() == std::vector<int64_t>{1, 2, 4, 5});
  LossSpec pairs{"multiple_negatives"};
  pairs.outputs = {"y"};
  CHECK(few_rows(pairs, batch, batch.at("mask")).at("row").to_ints() == row);
}
