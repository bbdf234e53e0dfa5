// The gradient cache: losses across the rows of an accumulation step equal those of a single batch with all rows.
#include "trainer/loop/gradient_cache.h"

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "tests/trainer/ranked_run.h"
#include "trainer/compile/host_terms.h"
#include "trainer/compile/memory_estimate.h"
#include "trainer/loop/micro_batches.h"

using namespace amp;
using namespace amp::test;

namespace {

const char* const kEncoder = R"(
    input x
    param W1 6 24
    param b1 24
    param W2 24 8
    param W3 24 3
    p = MatMul(x, W1)
    s = Add(p, b1)
    h = Tanh(s)
    d = Dropout{ratio=%RATIO%,site=5}(h)
    y = MatMul(d, W2)
    logits = MatMul(d, W3)
    other = Tanh(y)
    third = Sigmoid(y)
    output y
    output logits
    output other
    output third)";

SourceGraph encoder(const std::string& ratio = "0.0") {
  std::string text = kEncoder;
  text.replace(text.find("%RATIO%"), 7, ratio);
  return random_graph(text, "W1 0.6\nb1 0.1\nW2 0.4\nW3 0.4");
}

LossSpec ranking(std::vector<std::string> outputs = {"y"}, double weight = 1) {
  LossSpec s{"multiple_negatives", std::move(outputs)};
  s.weight = weight;
  return s;
}

HostTensor rows_of(const HostTensor& t, int64_t begin, int64_t n) {
  Dims d = t.dims();
  const int64_t bytes = t.bytes() / d[0];
  d[0] = n;
  HostTensor out = HostTensor::empty(t.dtype(), d);
  std::memcpy(out.mutable_data(), static_cast<const char*>(t.data()) + begin * bytes, static_cast<size_t>(n * bytes));
  return out;
}

// Splits a window into micro-batches of these sizes.
std::vector<Tensors> cut(const Tensors& batch, const std::vector<int64_t>& sizes) {
  std::vector<Tensors> out;
  int64_t row = 0;
  for (const int64_t n : sizes) {
    Tensors part;
    for (const auto& [name, t] : batch) part[name] = rows_of(t, row, n);
    out.push_back(part);
    row += n;
  }
  return out;
}

struct Found {
  std::vector<double> sums, gradients;
};

std::vector<double> seeds_of(const Losses& losses, const std::vector<Tensors>& batches) {
  LossAccumulator window(losses);
  for (const Tensors& b : batches) window.count(b);
  return window.seeds(1);
}

Found cached(Session& session, const Losses& losses, const std::vector<Tensors>& batches) {
  std::vector<int64_t> rows;
  for (const Tensors& b : batches) rows.push_back(batch_rows(losses, b));
  HostTerms terms(session.device(), seeds_of(losses, batches));
  GradientCache cache(session, losses);
  cache.launch(batches, rows_before(rows), std::reduce(rows.begin(), rows.end()), terms);
  return {terms.sums(), session.host_grads().to_doubles()};
}

Found plain(Session& session, const Losses& losses, const std::vector<Tensors>& batches) {
  return {run_micro_batches(session, losses, batches, seeds_of(losses, batches)), session.host_grads().to_doubles()};
}

// Returns the error relative to the largest element.
double error(const std::vector<double>& a, const std::vector<double>& b) {
  double top = 0;
  for (const double x : b) top = std::max(top, std::abs(x));
  return furthest(a, b) / top;
}

Tensors batch_of(int64_t rows) {
  std::vector<int64_t> label;
  for (int64_t i = 0; i < rows; ++i) label.push_back(i % 3);
  std::vector<float> target;
  for (int64_t i = 0; i < rows * 3; ++i) target.push_back(static_cast<float>(1 + i % 5));
  return {{"x", normal({rows, 6}, 1, 3)},
          {"label", HostTensor::of<int64_t>({rows}, label)},
          {"target", HostTensor::of<float>({rows, 3}, target)}};
}

}  // namespace

// fp32 sums of at most 24 rows and 24 products in another order differ by at most 1e-6 of the largest element.
TEST_CASE("a cached window has the losses and gradients of one batch", "[gradient_cache]") {
  const SourceGraph source = encoder();
  const auto sizes = GENERATE(std::vector<int64_t>{12, 12}, std::vector<int64_t>{6, 6, 6, 6},
                              std::vector<int64_t>{6, 6, 12}, std::vector<int64_t>{18, 6});
  Losses losses;
  SECTION("pairs in turn") { losses = ranking(); }
  SECTION("triples in turn") {
    losses = ranking();
    losses.parts[0].sides = 3;
  }
  SECTION("a side each") { losses = ranking({"y", "other"}); }
  SECTION("three sides") { losses = ranking({"y", "other", "third"}); }
  SECTION("a loss with labels") {
    losses = LossSpec{"rmspe", {"logits"}};
    losses.parts[0].label = "target";
  }
  SECTION("several losses, one of them of each row alone") {
    losses.parts = {LossSpec{"cross_entropy", {"logits"}}, ranking({"y"}, 0.5), ranking({"y", "third"}, 2)};
    losses.parts[2].set("scale", {5});
  }
  Session session(source, {});
  const Tensors batch = batch_of(24);
  const std::vector<Tensors> micro = cut(batch, sizes);
  const Found want = plain(session, losses, {batch}), apart = plain(session, losses, micro);
  const Found got = cached(session, losses, micro);
  CHECK(error(got.sums, want.sums) <= 1e-6);
  CHECK(error(got.gradients, want.gradients) <= 2e-6);
  CHECK(error(apart.gradients, want.gradients) > 1e-3);  // gradients differ without the cache
  const Found again = cached(session, losses, micro);
  CHECK(again.sums == got.sums);
  CHECK(again.gradients == got.gradients);
}

TEST_CASE("a cached window of one micro-batch is that micro-batch", "[gradient_cache]") {
  const SourceGraph source = encoder();
  Session session(source, {});
  const Losses losses = ranking();
  const Tensors batch = batch_of(8);
  const Found one = cached(session, losses, {batch}), want = plain(session, losses, {batch});
  CHECK(one.sums == want.sums);
  CHECK(one.gradients == want.gradients);
}

TEST_CASE("dropout draws the same in both passes of a cached window", "[gradient_cache]") {
  const bool low = GENERATE(false, true);
  const SourceGraph source = encoder("0.3");
  SessionOptions options;
  options.seed = 7;
  if (low) options.compute.assign(source.nodes.size(), DType::f16);
  Session session(source, options);
  const Losses losses = ranking({"y", "third"});
  const Tensors batch = batch_of(24);
  const std::vector<Tensors> micro = cut(batch, {6, 6, 12});
  session.state().step = 3;
  std::vector<std::vector<double>> first, second;
  HostTerms terms(session.device(), {1});
  for (const bool forward : {true, false}) {
    session.zero_grads();
    int64_t row = 0;
    for (const Tensors& b : micro) {
      session.state().samples_before = row;
      row += b.at("x").dims()[0];
      const Program* program = nullptr;
      if (forward) {
        program = &session.launch_forward(losses, b);
      } else {
        session.launch_cached(losses, b, terms, true, [&](Program& p) {
          program = &p;
          for (size_t k = 0; k < 2; ++k) {
            const Tensor& t = p.input(cached_input(0, k));
            p.set_input(cached_input(0, k), normal(t.dims, 1, k));
          }
        });
      }
      for (const char* name : {"y", "third"}) (forward ? first : second).push_back(program->read(name).to_doubles());
    }
  }
  CHECK(first == second);  // both passes are bit-identical
  const SourceGraph without = encoder();
  Session still(without, options);
  CHECK(still.launch_forward(losses, micro[0]).read("y").to_doubles() != first[0]);
  // One batch of all rows gives the same results, because random nodes number the samples of an accumulation step.
  if (!low) CHECK(error(cached(session, losses, micro).gradients, plain(session, losses, {batch}).gradients) <= 2e-6);
}

TEST_CASE("what the gradient cache keeps of a window is small", "[gradient_cache]") {
  const SourceGraph source = encoder();
  const Losses losses = ranking();
  const Tensors whole = batch_of(1024);
  const auto activations = [&](const std::vector<Tensors>& batches, bool cache) {
    Session session(source, {});
    (cache ? cached : plain)(session, losses, batches);
    return session.activation_bytes();
  };
  const std::vector<Tensors> micro = cut(whole, std::vector<int64_t>(64, 16));
  const int64_t one = activations({micro[0]}, false);
  CHECK(activations(micro, true) <= one + one / 2);  // outputs are stored in addition
  CHECK(activations({whole}, false) > 32 * one);
}

TEST_CASE("the memory bill of a run with a gradient cache is what it takes", "[gradient_cache]") {
  const SourceGraph source = encoder();
  const Losses losses = ranking();
  const std::vector<Tensors> micro = cut(batch_of(64), {16, 16, 16, 16});
  Session session(source, {});
  session.prepare(losses, micro[0]);
  GradientCache cache(session, losses);
  HostTerms terms(session.device(), {1});
  cache.launch(micro, {0, 16, 32, 48}, 64, terms);
  const MemoryEstimate bill = estimate_memory(source, {}, {}, losses, micro[0], true, {}, {}, 4);
  CHECK(bill.activations == session.activation_bytes() + cache.bytes());
  CHECK(bill.activations > estimate_memory(source, {}, {}, losses, micro[0], true).activations);
}

// Windows of 60 different sizes, twice. A removed Program is compiled again, with the same bits.
TEST_CASE("the Programs of cached windows have a limit of memory", "[gradient_cache]") {
  const SourceGraph source = encoder();
  const Losses losses = ranking({"y", "other"});
  struct Run {
    std::vector<double> sums;
    size_t most_programs = 0;
    int64_t most_bytes = 0;
  };
  const auto run = [&](int64_t limit) {
    SessionOptions options;
    options.program_bytes = limit;
    Session session(source, options);
    session.prepare(losses, cut(batch_of(8), {8})[0]);
    GradientCache cache(session, losses);
    Run out;
    for (const int64_t pass : {0, 1}) {
      for (int64_t rows = 4; rows < 64; ++rows) {
        const int64_t first = pass == 0 ? rows / 2 : 2;
        HostTerms terms(session.device(), {1});
        cache.launch(cut(batch_of(rows), {first, rows - first}), {0, first}, rows, terms);
        out.sums.push_back(terms.sums()[0]);
        out.most_programs = std::max(out.most_programs, cache.programs());
        out.most_bytes = std::max(out.most_bytes, cache.program_bytes());
      }
    }
    return out;
  };
  const Run all = run(0), some = run(300 << 10);
  CHECK(all.most_programs == 60);
  CHECK(all.most_bytes > 600 << 10);
  CHECK(some.most_programs > 1);
  CHECK(some.most_bytes <= 300 << 10);
  CHECK(some.sums == all.sums);
}

// The memory consists of the scores of 1,024 pairs with all candidates, the gradient of these scores, the outputs, and
// buffers of the outputs' size.
TEST_CASE("losses of all rows together take two matrices of scores of 1,024 pairs", "[gradient_cache]") {
  const int64_t pairs = GENERATE(512, 4096);
  const SourceGraph source = encoder();
  Session session(source, {});
  const Losses losses = ranking();
  GradientCache cache(session, losses);
  HostTerms terms(session.device(), {1});
  cache.launch(cut(batch_of(2 * pairs), {pairs, pairs}), {0, pairs}, 2 * pairs, terms);
  CHECK(cache.bytes() <= 2 * std::min<int64_t>(pairs, 1024) * pairs * 4 + 10 * 2 * pairs * 8 * 4);
}

TEST_CASE("pairs beyond 1,024 have the losses and gradients of one batch", "[gradient_cache]") {
  const SourceGraph source = encoder();
  Losses losses = ranking();
  SECTION("pairs") {}
  SECTION("triples") { losses.parts[0].sides = 3; }
  SECTION("two losses, a side each") { losses.parts = {ranking({"y", "other"}), ranking({"third", "other"}, 0.5)}; }
  Session session(source, {});
  const Tensors batch = batch_of(3 * 1200);
  const Found want = plain(session, losses, {batch}), got = cached(session, losses, cut(batch, {1200, 1200, 1200}));
  CHECK(error(got.sums, want.sums) <= 1e-5);  // fp32 sums of 1,800 to 3,600 rows in other orders
  CHECK(error(got.gradients, want.gradients) <= 1e-5);
}

namespace {

// Pairs are consecutive rows of the batch, whatever their position in the data.
struct CachedRun : RankedRun {
  explicit CachedRun(const std::filesystem::path& folder) : RankedRun(folder) {
    config.objective.losses = ranking();
    config.objective.task = Task::none;
    config.max_steps = config.schedule.total_steps = 15;
    config.gradient_cache = true;
  }
};

}  // namespace

// An epoch is 44 rows: its last micro-batch has 4, its last window may be short.
TEST_CASE("cached micro-batches train like one batch of the window", "[gradient_cache]") {
  const TempDir f;
  CachedRun one(f / "one"), cached(f / "cached");
  const int64_t parts = GENERATE(2, 4);
  if (parts == 4) one.config.optimizer.sam_rho = cached.config.optimizer.sam_rho = 0.05;
  one.config.sampler.accumulation = 1;
  cached.config.sampler.accumulation = parts;
  const Replica want = one.run(1, 16)[0], got = cached.run(1, 16 / parts)[0];
  REQUIRE(got.losses.size() == 15);
  CHECK(error(got.losses, want.losses) <= 1e-5);
  CHECK(error(got.params.back(), want.params.back()) <= 1e-5);
  CHECK(cached.run(1, 16 / parts)[0].params == got.params);  // a second run is bit-identical
  cached.config.gradient_cache = false;
  CHECK(error(cached.run(1, 16 / parts)[0].losses, want.losses) > 1e-2);
}

TEST_CASE("negatives of a cached window are those of all ranks", "[gradient_cache][ranks]") {
  const TempDir f;
  CachedRun job(f / "run");
  const Replica want = job.run(1, 8)[0];
  for (const int size : {2, 4}) {
    INFO(size << " ranks");
    const std::vector<Replica> ranks = job.run(size, 8);
    require_equal(ranks);
    CHECK(error(ranks[0].losses, want.losses) <= 1e-5);
    CHECK(error(ranks[0].params.back(), want.params.back()) <= 1e-5);
  }
}

// The last window of an epoch, or the first of a run, may be one micro-batch without rows for some ranks.
TEST_CASE("a rank without rows learns how wide the others' are", "[gradient_cache][ranks]") {
  const TempDir f;
  CachedRun job(f / "run");
  job.config.max_steps = job.config.schedule.total_steps = 3;
  job.config.sampler.accumulation = 1;
  const std::vector<Replica> ranks = job.run(4, 64);  // samples of the four ranks: 16, 16, 12, 0
  require_equal(ranks);
  CHECK(error(ranks[0].losses, job.run(1, 64)[0].losses) <= 1e-5);
}

TEST_CASE("a cached window that overflows is skipped, the loss scale moves", "[gradient_cache]") {
  const TempDir f;
  CachedRun job(f / "run");
  job.options.compute.assign(job.graph.nodes.size(), DType::f16);
  job.config.scale.init = 1 << 24;  // with this scale, gradients exceed fp16's 65504
  job.config.scale.growth_interval = 4;
  const Replica run = job.run(1, 4)[0];
  const auto skipped = std::count(run.skipped.begin(), run.skipped.end(), true);
  CHECK(run.skipped[0]);
  CHECK(skipped < 15);
  CHECK(*std::max_element(run.scales.begin(), run.scales.end()) >
        *std::min_element(run.scales.begin(), run.scales.end()));
  job.options.compute.clear();
  job.config.scale.mode = LossScaleConfig::Mode::off;
  // tolerance: fp16 embeddings are rounded by 2^-11.
  CHECK(run.losses[0] == Catch::Approx(job.run(1, 4)[0].losses[0]).epsilon(5e-3));
}

TEST_CASE("a resumed run goes on with its cached windows, to the bit", "[gradient_cache]") {
  const TempDir f;
  CachedRun job(f / "run"), rest(f / "rest");
  job.graph = rest.graph = random_graph(std::string(kNet).replace(std::string(kNet).find("y = MatMul(a"), 12,
                                                                  "d = Dropout{ratio=0.2,site=3}(a)\n    y = MatMul(d"),
                                        "w1 0.5\nb1 0.1\nw2 0.5");
  job.config.save_steps = 5;
  job.config.save_total_limit = 0;
  const Replica whole = job.run(1, 4)[0];
  const Checkpoint at = load_checkpoint(checkpoint_path(job.config.output_dir + "/checkpoints", 10));
  CHECK(rest.run(1, 4, &at)[0].params.back() == whole.params.back());
}

TEST_CASE("a gradient cache refuses what it cannot join", "[gradient_cache]") {
  const SourceGraph source = encoder();
  const Losses losses = [] {
    LossSpec s{"rmspe", {"logits"}};
    s.label = "target";
    return Losses(s);
  }();
  Session session(source, {});
  on_ranks(2, [&](Communicator& rank) {
    try {
      GradientCache(session, losses, rank);
    } catch (const Error& e) {
      if (e.id() == "E_GRADIENT_CACHE" && e.fact().find("rmspe") != std::string::npos) return;
      throw;
    }
    throw std::runtime_error("labels of other ranks are not known");
  });
  const SourceGraph scalar = random_graph("input x\nparam W 6 8\np = MatMul(x, W)\ny = Transpose(p)\noutput y", "W 1");
  Session turned(scalar, {});
  const std::vector<Tensors> micro = cut({{"x", normal({8, 6}, 1, 3)}}, {4, 4});
  CHECK_THROWS_WITH(cached(turned, ranking(), micro), Catch::Matchers::ContainsSubstring("'y' is [8,4]"));
}
