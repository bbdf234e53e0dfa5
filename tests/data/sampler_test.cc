// The sampler, prefetch and loader. Orders are functions of seed and epoch, compared with
// tests/data/data/make_sampler_golden.py. Ranks together visit the samples of a single rank.
#include <atomic>
#include <catch2/catch_all.hpp>
#include <chrono>
#include <fstream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "data/loader.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;

namespace {

std::vector<int32_t> lengths37() {
  std::vector<int32_t> lengths;
  for (int32_t i = 0; i < 37; ++i) lengths.push_back(i * 7 % 11);
  return lengths;
}

// A data set whose samples are their indices. The time to make a batch depends on the indices.
class Numbers final : public Dataset {
 public:
  int64_t size() const override { return 37; }
  Batch batch(std::span<const int64_t> samples) const override {
    std::this_thread::sleep_for(std::chrono::microseconds(samples[0] * 37 % 400));
    Batch b;
    b.inputs["x"] = HostTensor::of<int64_t>({static_cast<int64_t>(samples.size())}, {samples.begin(), samples.end()});
    b.rows = b.valid_items = static_cast<int64_t>(samples.size());
    return b;
  }
  std::string where(int64_t) const override { return ""; }
  void check_token_range(const std::string&, int64_t) const override {}
  void check_label_range(int64_t, int64_t) const override {}
};

std::vector<int64_t> flat(const Window& w) {
  std::vector<int64_t> out;
  for (const auto& m : w.micro) out.insert(out.end(), m.begin(), m.end());
  return out;
}

}  // namespace

TEST_CASE("orders are the defined function of seed and epoch") {
  std::ifstream in(test::test_data("data/sampler_orders.txt"));
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines) {
    std::istringstream s(line);
    std::string kind;
    uint64_t seed;
    int64_t epoch;
    s >> kind >> seed >> epoch;
    const std::vector<int64_t> want{std::istream_iterator<int64_t>(s), {}};
    const SamplerOptions options{.order = kind == "grouped" ? Order::grouped : Order::shuffled,
                                 .batch_size = 4,
                                 .chunk_batches = 3,
                                 .seed = seed};
    CHECK(Sampler(37, lengths37(), options).epoch_order(epoch) == want);
  }
  CHECK(lines == 6);
}

TEST_CASE("an epoch visits every sample once, whatever the order; windows and batches have their sizes") {
  for (const Order order : {Order::file, Order::shuffled, Order::grouped, Order::by_length}) {
    Sampler s(37, lengths37(), {.order = order, .batch_size = 4, .accumulation = 3, .chunk_batches = 2});
    CHECK(s.batches_per_epoch() == 10);
    CHECK(s.windows_per_epoch() == 4);
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<int64_t> seen;
      for (int64_t w = 0; w < 4; ++w) {
        const Window window = s.next();
        CHECK(window.at == SamplerState{epoch, w});
        CHECK(window.last_of_epoch == (w == 3));
        CHECK(window.micro.size() == (w == 3 ? 1 : 3));                          // the tail window is shorter
        for (const auto& m : window.micro) CHECK(m.size() == (w == 3 ? 1 : 4));  // the tail batch keeps its real row
        const auto some = flat(window);
        seen.insert(seen.end(), some.begin(), some.end());
      }
      if (order == Order::file) CHECK(std::is_sorted(seen.begin(), seen.end()));
      std::sort(seen.begin(), seen.end());
      for (int64_t i = 0; i < 37; ++i) CHECK(seen[static_cast<size_t>(i)] == i);
    }
  }
}

TEST_CASE("epochs and seeds differ, a sampler resumed anywhere goes on as the first one") {
  const SamplerOptions options{
      .order = Order::grouped, .batch_size = 4, .accumulation = 2, .chunk_batches = 2, .seed = 9};
  Sampler a(37, lengths37(), options);
  CHECK(a.epoch_order(0) != a.epoch_order(1));
  CHECK(a.epoch_order(0) !=
        Sampler(37, lengths37(), {.order = Order::grouped, .batch_size = 4, .seed = 10}).epoch_order(0));
  for (int i = 0; i < 17; ++i) {
    const SamplerState state = a.state();
    const Window want = a.next();
    Sampler b(37, lengths37(), options);
    b.seek(state);
    const Window got = b.next();
    CHECK(got.micro == want.micro);
    CHECK(got.next == want.next);
    CHECK(a.state() == want.next);
  }
}

TEST_CASE("grouping lowers padding and keeps batches apart from file order") {
  std::vector<int32_t> lengths;
  for (int32_t i = 0; i < 3200; ++i) lengths.push_back(5 + i * 7919 % 60);
  const auto padded = [&](Order order) {
    Sampler s(3200, lengths, {.order = order, .batch_size = 32});
    int64_t total = 0;
    for (int i = 0; i < 100; ++i) {
      const auto samples = flat(s.next());
      int32_t longest = 0;
      for (const int64_t j : samples) longest = std::max(longest, lengths[static_cast<size_t>(j)]);
      total += longest * static_cast<int64_t>(samples.size());
    }
    return total;
  };
  CHECK(padded(Order::grouped) * 10 < padded(Order::shuffled) * 7);
  CHECK(padded(Order::by_length) <= padded(Order::grouped));
}

TEST_CASE("sizes below one are refused, lengths may be absent") {
  CHECK_THROWS_AS(Sampler(0, {}, {}), Error);
  CHECK_THROWS_AS(Sampler(3, {}, {.batch_size = 0}), Error);
  CHECK_THROWS_AS(Sampler(3, {}, {.accumulation = 0}), Error);
  Sampler s(3, {}, {.order = Order::grouped, .batch_size = 100, .accumulation = INT64_MAX});
  CHECK(s.next().micro.size() == 1);
  CHECK(s.state() == SamplerState{1, 0});
}

TEST_CASE("loaded windows are the same with and without the thread, and end after max_epochs") {
  const Numbers data;
  const auto make = [] { return Sampler(37, {}, {.batch_size = 4, .accumulation = 3}); };
  for (const size_t ahead : {1, 2, 7}) {
    WindowLoader with(data, make(), 2, ahead), without(data, make(), 2, 0);
    int windows = 0;
    while (auto want = without.next()) {
      const auto got = with.next();
      REQUIRE(got);
      CHECK(got->at == want->at);
      CHECK(got->next == want->next);
      CHECK(got->rows == want->rows);
      REQUIRE(got->batches.size() == want->batches.size());
      for (size_t i = 0; i < got->batches.size(); ++i) {
        CHECK(got->batches[i].inputs.at("x").to_ints() == want->batches[i].inputs.at("x").to_ints());
      }
      ++windows;
    }
    CHECK(windows == 8);
    CHECK_FALSE(with.next());
    CHECK_FALSE(with.next());
  }
}

TEST_CASE("an error comes in the place of its item") {
  int n = 0;
  Prefetch<int> p(
      [&]() -> std::optional<int> {
        if (n == 3) fail(Exit::data, "E_TEST", "the fourth item");
        return n++;
      },
      10);
  for (int i = 0; i < 3; ++i) CHECK(p.next() == i);
  CHECK_THROWS_AS(p.next(), Error);
  CHECK_THROWS_AS(p.next(), Error);
}

TEST_CASE("the queue is bounded and destruction does not wait for the rest") {
  std::atomic<int> made = 0;
  {
    Prefetch<int> p([&]() -> std::optional<int> { return ++made; }, 3);
    CHECK(p.next() == 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK(made <= 4);  // one taken, three prefetched
  }
  CHECK(made <= 4);
}

namespace {
// Checks that the ranks' samples, joined, are those of a single rank. sampler(ranks, rank) returns
// the sampler of a rank.
template <class F>
void check_shared(int64_t ranks, const F& sampler, int steps, bool all_have_some) {
  Sampler whole = sampler(1, 0);
  std::vector<Sampler> parts;
  for (int64_t r = 0; r < ranks; ++r) parts.push_back(sampler(ranks, r));
  for (int step = 0; step < steps; ++step) {
    const Window want = whole.next();
    std::vector<int64_t> all(static_cast<size_t>(want.samples), -1);
    for (Sampler& part : parts) {
      const Window w = part.next();
      CHECK(w.next == want.next);
      CHECK(w.samples == want.samples);
      REQUIRE(w.first.size() == w.micro.size());
      for (size_t m = 0; m < w.micro.size(); ++m) {
        if (all_have_some) CHECK_FALSE(w.micro[m].empty());
        for (size_t i = 0; i < w.micro[m].size(); ++i) all.at(static_cast<size_t>(w.first[m]) + i) = w.micro[m][i];
      }
    }
    CHECK(all == flat(want));
  }
}
}  // namespace

TEST_CASE("ranks share the micro-batches of one rank", "[ranks]") {
  const int64_t accumulation = GENERATE(1, 3);
  for (const int64_t ranks : {2, 4}) {
    const auto sampler = [&](int64_t size, int64_t rank) {
      SamplerOptions o{
          .order = Order::grouped, .batch_size = 8 / size, .accumulation = accumulation, .chunk_batches = 2};
      o.ranks = size;
      o.rank = rank;
      return Sampler(37, lengths37(), o);
    };
    check_shared(ranks, sampler, 12, true);
  }
}

namespace {
std::vector<std::vector<int64_t>> numbers_of(const std::string& file) {
  std::ifstream in(test::test_data(file));
  std::vector<std::vector<int64_t>> out;
  for (std::string line; std::getline(in, line);) {
    std::istringstream s(line);
    out.emplace_back(std::istream_iterator<int64_t>(s), std::istream_iterator<int64_t>());
  }
  return out;
}

// Returns weights for 176 labels of class 0, 12 of class 1 and 12 of class 2.
std::shared_ptr<const std::vector<double>> rare_classes(std::vector<int64_t>& labels) {
  for (int64_t i = 0; i < 200; ++i) labels.push_back(i % 9 ? 0 : i % 2 + 1);
  return std::make_shared<const std::vector<double>>(class_weights(labels));
}

std::vector<int32_t> lengths120() {
  std::vector<int32_t> lengths;
  for (int32_t i = 0; i < 120; ++i) lengths.push_back(3 + i * 7 % 29);
  return lengths;
}
}  // namespace

TEST_CASE("draws by class weights are the defined function of seed and epoch") {
  std::vector<int64_t> labels;
  const auto weights = rare_classes(labels);
  const auto lines = numbers_of("data/sampler_draws.txt");
  for (const auto& line : lines) {
    SamplerOptions o{
        .order = Order::shuffled, .batch_size = 8, .seed = static_cast<uint64_t>(line[0]), .weights = weights};
    CHECK(Sampler(200, {}, o).epoch_order(line[1]) == std::vector<int64_t>(line.begin() + 2, line.end()));
  }
  CHECK(lines.size() == 3);
}

TEST_CASE("weighted by class, classes come equally often and their samples too, ignored ones never") {
  std::vector<int64_t> labels;
  rare_classes(labels);
  labels[5] = labels[6] = -100;
  const auto weights = std::make_shared<const std::vector<double>>(class_weights(labels));
  std::vector<int32_t> lengths(200, 3);
  lengths[0] = 9;
  const Order order = GENERATE(Order::shuffled, Order::grouped);
  const Sampler s(200, lengths, {.order = order, .batch_size = 8, .weights = weights});
  std::map<int64_t, double> of_class;
  std::vector<double> of_sample(200);
  constexpr int64_t kEpochs = 600;
  for (int64_t e = 0; e < kEpochs; ++e) {
    const auto drawn = s.epoch_order(e);
    REQUIRE(drawn.size() == 200);
    for (const int64_t i : drawn) {
      ++of_class[labels[static_cast<size_t>(i)]];
      ++of_sample[static_cast<size_t>(i)];
    }
  }
  // 120,000 draws: the standard deviation of a class's share is sqrt(2 / 9 / 120000) = 0.0014.
  CHECK(of_class.size() == 3);
  for (const auto& [label, n] : of_class) CHECK(n / (200.0 * kEpochs) == Catch::Approx(1.0 / 3).margin(0.0055));
  // Chi squared of the 197 samples with nonzero weight: mean 197, standard deviation 20.
  double chi = 0;
  for (size_t i = 0; i < 200; ++i) {
    const double expected = (*weights)[i] / 3 * 200 * kEpochs;
    if (expected > 0) {
      chi += (of_sample[i] - expected) * (of_sample[i] - expected) / expected;
    } else {
      CHECK(of_sample[i] == 0);
    }
  }
  CHECK(chi < 297);
  CHECK(chi > 97);
  const auto none = std::make_shared<const std::vector<double>>(3, 0.0);
  test::expect_error("E_WEIGHTS", "no sample has a chance", [&] { Sampler(3, {}, {.weights = none}); });
}

TEST_CASE("options of a sampler are at least 1") {
  const auto refused = [](const SamplerOptions& options, const std::string& name) {
    test::expect_error(
        "E_OPTION", name + " is 0", [&] { Sampler(3, {}, options); }, Exit::usage);
  };
  refused({.batch_size = 0}, "batch_size");
  refused({.accumulation = 0}, "gradient_accumulation_steps");
  refused({.chunk_batches = 0}, "chunk_batches");
}

TEST_CASE("batches by tokens are cut as Paddle's reader cuts them") {
  const auto lines = numbers_of("data/sampler_tokens.txt");
  for (size_t at = 0; at < lines.size();) {
    const int64_t tokens = lines[at][0];
    Sampler s(120, lengths120(), {.order = Order::shuffled, .batch_size = tokens, .in_tokens = true});
    for (int64_t b = 0; b < s.batches_per_epoch(0); ++b, ++at) {
      const auto got = s.next().micro;
      REQUIRE(got.size() == 1);
      CHECK(got[0] == std::vector<int64_t>(lines.at(at).begin() + 1, lines[at].end()));
    }
    CHECK(s.state() == SamplerState{1, 0});
  }
}

TEST_CASE("by tokens every sample comes once an epoch in batches that fit, grouped ones waste less") {
  const std::vector<int32_t> lengths = lengths120();
  for (const Order order : {Order::file, Order::shuffled, Order::grouped, Order::by_length}) {
    SamplerOptions o{.order = order, .batch_size = 64, .accumulation = 2, .chunk_batches = 8, .in_tokens = true};
    Sampler s(120, lengths, o);
    int64_t windows = 0;
    for (int64_t epoch = 0; epoch < 4; ++epoch) {
      std::vector<int64_t> seen;
      int64_t batches = 0;
      for (bool last = false; !last; ++windows) {
        const SamplerState at = s.state();
        const Window w = s.next();
        last = w.last_of_epoch;
        CHECK(w.per_epoch == s.windows_per_epoch(epoch));
        for (const auto& m : w.micro) {
          int32_t longest = 0;
          for (const int64_t i : m) longest = std::max(longest, lengths[static_cast<size_t>(i)]);
          CHECK(longest * static_cast<int64_t>(m.size()) <= 64);
        }
        batches += static_cast<int64_t>(w.micro.size());
        const auto some = flat(w);
        seen.insert(seen.end(), some.begin(), some.end());
        Sampler resumed(120, lengths, o);
        resumed.seek(at);
        CHECK(resumed.next().micro == w.micro);
      }
      CHECK(batches == s.batches_per_epoch(epoch));
      CHECK(s.state() == SamplerState{epoch + 1, 0});
      std::sort(seen.begin(), seen.end());
      REQUIRE(seen.size() == 120);
      for (int64_t i = 0; i < 120; ++i) CHECK(seen[static_cast<size_t>(i)] == i);
    }
    CHECK(s.windows_of(4) == windows);
    CHECK(s.windows_of(3.5) == windows - s.windows_per_epoch(3) + (s.windows_per_epoch(3) + 1) / 2);
  }
  const auto batches = [&](Order order) {
    return Sampler(120, lengths, {.order = order, .batch_size = 64, .in_tokens = true}).batches_per_epoch();
  };
  CHECK(batches(Order::grouped) < batches(Order::shuffled));
  Sampler one(3, std::vector<int32_t>{5, 90, 5}, {.order = Order::file, .batch_size = 64, .in_tokens = true});
  CHECK(one.batches_per_epoch() == 3);  // the long sample is a separate batch
}

TEST_CASE("ranks share batches by tokens and weighted draws", "[ranks]") {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 120; ++i) labels.push_back(i % 10 == 0);
  const auto weights = std::make_shared<const std::vector<double>>(class_weights(labels));
  for (const int64_t ranks : {2, 3}) {
    const auto sampler = [&](int64_t size, int64_t rank) {
      SamplerOptions o{
          .order = Order::grouped, .batch_size = 96 / size, .accumulation = 2, .in_tokens = true, .weights = weights};
      o.ranks = size;
      o.rank = rank;
      return Sampler(120, lengths120(), o);
    };
    check_shared(ranks, sampler, 30, false);
  }
}
