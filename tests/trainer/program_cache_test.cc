// The cache of compiled Programs: its limit, sizes by counters, and the same bits as without a limit. A language model
// trains on many lengths, and is evaluated between the steps.
#include "trainer/compile/program_cache.h"

#include <catch2/catch_all.hpp>
#include <cmath>

#include "padding_models.h"
#include "small_run.h"
#include "trainer/compile/bounded_cache.h"
#include "trainer/loop/micro_batches.h"

using namespace amp;
using namespace amp::test;

namespace {

constexpr int64_t kShortest = 3, kLongest = 16, kWords = 11;

SourceGraph language_model() {
  return random_graph(encoder(mask_kinds()[0], kNoMix) + "Et = Transpose{perm=[1 0]}(E)\ny = MatMul(t, Et)\noutput y\n",
                      "E 0.8\nP 0.5\nWq 0.5\nWk 0.5\nWv 0.5\nWo 0.4\n");
}

Losses causal() {
  LossSpec s{"causal_lm"};
  s.outputs = {"y"};
  s.label = "label";
  return Losses(s);
}

Tensors batch_of(int64_t length) {
  constexpr int64_t kRows = 3;
  std::vector<int64_t> ids, mask, label;
  for (int64_t i = 0; i < kRows * length; ++i) {
    const bool there = i >= length || i < length - length / 4;  // the first row has padding
    ids.push_back((7 * i + i / 5 + length) % kWords);
    mask.push_back(there);
    label.push_back(there && i % 2 == 0 ? ids.back() : -100);
  }
  const Dims d{kRows, length};
  return {{"ids", HostTensor::of<int64_t>(d, ids)},
          {"mask", HostTensor::of<int64_t>(d, mask)},
          {"label", HostTensor::of<int64_t>(d, label)}};
}

// Returns the n-th length of a sequence that contains each length several times, in different orders.
int64_t length_of(int64_t n) { return kShortest + (n * 5 + n / 14) % (kLongest - kShortest + 1); }

struct Trained {
  std::vector<double> losses;
  std::vector<float> params;
  int64_t compiled = 0, most_bytes = 0, most_programs = 0, most_constants = 0, limit = 0;
};

// Trains with SGD, two micro-batches of different lengths per step, and evaluates a third length after each step.
Trained train(int64_t limit, int64_t steps) {
  const SourceGraph g = language_model();
  const Losses losses = causal();
  SessionOptions o;
  o.program_bytes = limit;
  Session session(g, o);
  session.prepare(losses, batch_of(kLongest));
  Trained out;
  out.limit = session.programs().limit();
  for (int64_t step = 0; step < steps; ++step) {
    session.state().step = step;
    session.stage_statistics();
    const std::vector<Tensors> batches{batch_of(length_of(2 * step)), batch_of(length_of(2 * step + 1))};
    LossAccumulator window(losses);
    for (const Tensors& b : batches) window.count(b);
    for (const double x : run_micro_batches(session, losses, batches, window.seeds(1))) out.losses.push_back(x);
    HostTensor params = session.host_params();
    const HostTensor grads = session.host_grads();
    for (int64_t i = 0; i < std::min(params.numel(), grads.numel()); ++i)
      params.as_mutable<float>()[i] -= 0.05f * grads.as<float>()[i];
    session.set_params(params);
    Tensors outputs;
    for (const double x : session.eval_micro_batch(losses, batch_of(length_of(3 * step + 7)), &outputs))
      out.losses.push_back(x);
    for (const double x : outputs.at("y").to_doubles()) out.losses.push_back(x);
    const ProgramCache& programs = session.programs();
    out.most_bytes = std::max(out.most_bytes, programs.bytes());
    out.most_programs = std::max(out.most_programs, static_cast<int64_t>(programs.size()));
    out.most_constants = std::max(out.most_constants, programs.constant_bytes());
  }
  out.compiled = session.programs().compiled();
  const HostTensor params = session.host_params();
  out.params.assign(params.as<float>(), params.as<float>() + params.numel());
  return out;
}

}  // namespace

TEST_CASE("the cache of Programs stays within its limit over many lengths, with the same bits", "[program_cache]") {
  constexpr int64_t kSteps = 30;
  const Trained all = train(int64_t{1} << 40, kSteps), some = train(int64_t{200} << 10, kSteps), one = train(1, kSteps);
  REQUIRE(all.most_programs >= 25);
  CHECK(all.compiled >= all.most_programs);  // compiled again after prepare() clears the cache
  CHECK(all.most_bytes > int64_t{2} * (200 << 10));
  CHECK(some.most_bytes <= int64_t{200} << 10);
  CHECK(some.most_programs >= 2);
  CHECK(some.most_programs < all.most_programs / 2);
  CHECK(some.compiled > all.compiled);
  CHECK(some.most_constants <= all.most_constants);
  CHECK(one.most_programs == 1);  // the current Program is kept in any case
  CHECK(one.compiled >= some.compiled);
  for (const Trained* t : {&some, &one}) {
    CHECK(t->losses == all.losses);
    CHECK(t->params == all.params);
  }
  for (const double x : all.losses) REQUIRE(std::isfinite(x));
}

TEST_CASE("the default limit of a small session is 128 MiB", "[program_cache]") {
  CHECK(train(0, 1).limit == int64_t{128} << 20);
}

TEST_CASE("a bounded cache removes the least recently used entries first", "[program_cache]") {
  BoundedCache<int, std::string> cache;
  std::vector<std::string> removed;
  const auto removing = [&](const std::string& s) { removed.push_back(s); };
  cache.add(1, "one", 10);
  cache.add(2, "two", 10);
  cache.add(3, "three", 10);
  REQUIRE(cache.find(1));
  CHECK(!cache.find(4));
  cache.make_room(5, 30, removing);
  CHECK(removed == std::vector<std::string>{"two"});
  CHECK(cache.bytes() == 20);
  cache.make_room(100, 30, removing);
  CHECK(removed == std::vector<std::string>{"two", "three", "one"});
  CHECK((cache.size() == 0 && cache.bytes() == 0));
}
