// Gradient sums that overlap backward give the same bits as sums after it.
#include "trainer/comm/gradient_reducer.h"

#include <cstring>

#include "base/error.h"
#include "base/philox.h"
#include "tests/errors.h"
#include "tests/trainer/ranked_run.h"

using namespace amp;
using namespace amp::test;

namespace {

float drawn(uint64_t rank, int64_t i) {
  const PhiloxBlock r = philox(rank, 1, static_cast<uint64_t>(i));
  return static_cast<float>(static_cast<int32_t>(r.v[0])) * 1e-9F;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Returns gradients of a matrix. Each rank has every n-th row. Row 7 is -0 on all ranks; row 8 is not
// finite on one rank.
std::vector<float> some_rows(int rank, int64_t rows, int64_t columns, int64_t every) {
  std::vector<float> out(static_cast<size_t>(rows * columns), 0.0F);
  const auto set = [&](int64_t row, float x) { std::fill_n(out.begin() + row * columns, columns, x); };
  for (int64_t r = rank % every; r < rows; r += every) {
    for (int64_t c = 0; c < columns; ++c) out[static_cast<size_t>(r * columns + c)] = drawn(rank, r * columns + c);
  }
  set(7, -0.0F);
  out[static_cast<size_t>(7 * columns)] = rank == 1 ? 1.0F : -0.0F;
  if (rank == 0) set(8, std::numeric_limits<float>::quiet_NaN());
  return out;
}

// Returns a layout of three matrices larger than a bucket, a table, small parameters, and a frozen one.
FlatLayout layout_of_many() {
  FlatLayout layout;
  layout.add("a", {1100, 1000});
  layout.add("table", {4096, 80});
  layout.add("b", {1100, 1000});
  layout.add("frozen", {300}).frozen = true;
  layout.add("bias", {7});
  layout.add("c", {1100, 1000});
  layout.add("scale", {9});
  layout.arrange();
  return layout;
}

// Acts as a backward pass that has computed the gradients of the first `count` parameters in `order`.
void run_backward(GradientReducer& sums, const std::vector<int>& order, size_t count) {
  for (size_t i = 0; i < count; ++i) sums.done(order[i], nullptr);
}

// Starts a sum on every rank; returns the result of each rank.
std::vector<float> summed(Communicator& rank, const std::vector<float>& x, DType sent, int64_t columns = 0) {
  const auto memory = std::make_shared<std::vector<float>>(x);
  const auto sum = std::make_shared<RankSum>();
  sum->memory = memory;
  sum->data = *memory;
  sum->columns = columns;
  sum->sent = sent;
  rank.start_sum(sum).get();
  if (columns > 0 && !sum->by_rows) throw std::runtime_error("the whole was exchanged");
  return *memory;
}

}  // namespace

TEST_CASE("rows that are not zero are summed like the whole, bit by bit", "[ranks]") {
  const int size = GENERATE(2, 3, 4);
  const int64_t every = GENERATE(1, 3, 40);  // all rows, every third, every 40th
  on_ranks(size, [&](Communicator& rank) {
    std::vector<float> whole = some_rows(rank.rank(), 500, 24, every);
    const auto sum = std::make_shared<RankSum>();
    const auto memory = std::make_shared<std::vector<float>>(whole);
    sum->memory = memory;
    sum->data = *memory;
    sum->columns = 24;
    rank.start_sum(sum).get();
    rank.all_reduce(std::span(whole), Reduction::sum);
    // The sign of a NaN is not compared.
    for (size_t i = 0; i < whole.size(); ++i) {
      if (std::isnan(whole[i]) && std::isnan((*memory)[i])) whole[i] = (*memory)[i] = 0;
    }
    if (!same_bits(*memory, whole)) throw std::runtime_error("another sum");
    if (sum->by_rows != (every > 1)) throw std::runtime_error("rows were exchanged where the whole is less");
  });
}

TEST_CASE("a sum in 16 bits is the rounded mean of rounded parts, on all ranks", "[ranks]") {
  const DType sent = GENERATE(DType::f16, DType::bf16);
  const int size = GENERATE(2, 3, 4);
  CAPTURE(size, name_of(sent));
  const int64_t n = 2500;  // more than one piece, with shards of different sizes
  on_ranks(size, [&](Communicator& rank) {
    std::vector<double> parts(static_cast<size_t>(n), 0.0);
    std::vector<float> own;
    const auto rounded = [&](float x) {
      return sent == DType::f16 ? static_cast<float>(Half(x)) : static_cast<float>(BFloat16(x));
    };
    for (int r = 0; r < size; ++r) {
      for (int64_t i = 0; i < n; ++i) {
        const float x = drawn(static_cast<uint64_t>(r), i);
        if (r == rank.rank()) own.push_back(x);
        parts[static_cast<size_t>(i)] += rounded(x * (1.0F / static_cast<float>(size)));
      }
    }
    const std::vector<float> got = summed(rank, own, sent);
    for (size_t i = 0; i < got.size(); ++i) {
      // An fp32 sum of at most four 11-bit numbers of similar size is exact in most cases.
      const auto want = static_cast<float>(size) * rounded(static_cast<float>(parts[i]));
      const float unit = std::abs(want) * (sent == DType::f16 ? 0x1p-10F : 0x1p-7F);
      if (std::abs(got[i] - want) > unit) throw std::runtime_error(cat("element ", i, ": ", got[i], " for ", want));
    }
    const std::vector<float> again = summed(rank, own, sent);
    if (!same_bits(got, again)) throw std::runtime_error("another sum");
    std::vector<float> first = got;
    std::string bytes(reinterpret_cast<const char*>(first.data()), first.size() * sizeof(float));
    rank.broadcast(bytes, 0);
    if (std::memcmp(bytes.data(), got.data(), bytes.size()) != 0) throw std::runtime_error("ranks differ");
  });
}

TEST_CASE("a sum that fp16 cannot hold is sent as the mean, which it can", "[ranks]") {
  on_ranks(4, [](Communicator& rank) {
    if (summed(rank, {60000, 1}, DType::f16)[0] != 240000) throw std::runtime_error("overflow");
    const float too_large = rank.rank() == 2 ? 300000.0F : 1.0F;  // the sum exceeds fp16: more than 4 times its maximum
    if (std::isfinite(summed(rank, {too_large}, DType::f16)[0])) throw std::runtime_error("an overflow was lost");
    if (summed(rank, {too_large}, DType::bf16)[0] > 301000) throw std::runtime_error("bf16 has the range of fp32");
  });
}

TEST_CASE("in 16 bits, too, rows are summed like the whole", "[ranks]") {
  const DType sent = GENERATE(DType::f16, DType::bf16);
  const int size = GENERATE(2, 3, 4);
  on_ranks(size, [&](Communicator& rank) {
    std::vector<float> x = some_rows(rank.rank(), 500, 24, 40);
    for (float& v : x) v = std::isnan(v) ? std::numeric_limits<float>::infinity() : v;
    if (!same_bits(summed(rank, x, sent, 24), summed(rank, x, sent))) throw std::runtime_error("another sum");
  });
}

TEST_CASE("a table that nobody looked anything up in is summed by nobody", "[ranks]") {
  on_ranks(2, [&](Communicator& rank) {
    const auto memory = std::make_shared<std::vector<float>>(640, 0.0F);
    const auto sum = std::make_shared<RankSum>();
    sum->memory = memory;
    sum->data = *memory;
    sum->columns = 16;
    rank.start_sum(sum).get();
    if (!sum->by_rows) throw std::runtime_error("all of it was sent");
  });
}

TEST_CASE("buckets are summed in one order, whatever each rank has finished and when", "[ranks]") {
  const int size = GENERATE(2, 3);
  const FlatLayout layout = layout_of_many();
  on_ranks(size, [&](Communicator& rank) {
    const auto n = static_cast<size_t>(layout.trained_size());
    const auto memory = std::make_shared<std::vector<float>>(n);
    GradientReducer sums(rank, layout, DeviceMemory(memory, memory->data()));
    const std::vector<int> forwards{0, 1, 2, 4, 5, 6, 3}, backwards{6, 5, 4, 3, 2, 1, 0}, mixed{2, 6, 0, 4, 1, 5, 3};
    for (int window = 0; window < 5; ++window) {
      for (size_t i = 0; i < n; ++i) (*memory)[i] = drawn(static_cast<uint64_t>(rank.rank() + 10 * window), int64_t(i));
      const int64_t table = layout.chunks()[1].offset;
      std::fill_n(memory->begin() + table, window < 3 ? 4000 * 80 : 0, 0.0F);
      std::vector<float> want = *memory;
      rank.all_reduce(std::span(want), Reduction::sum);
      sums.begin();
      const std::vector<int>& order = (window + rank.rank()) % 3 == 0 ? forwards : rank.rank() ? mixed : backwards;
      if (window == 4) {  // the rows of the table are reported
        std::vector<int64_t> rows{4095, -1, 3, 3, rank.rank()};
        std::fill_n(memory->begin() + table, 4096 * 80, 0.0F);
        for (const int64_t r : rows) (*memory)[static_cast<size_t>(table + (r + 4096) % 4096 * 80 + 5)] = 0.5F;
        want = *memory;
        rank.all_reduce(std::span(want), Reduction::sum);
        const Tensor told{rows.data(), DType::i64, {5}};
        for (const int slot : order) sums.done(slot, slot == 1 ? &told : nullptr);
      } else {
        // In window 2, rank 1 has no rows.
        run_backward(sums, order, window == 2 && rank.rank() == 1 ? 0 : order.size());
      }
      if (window == 3) sums.hold();
      sums.finish();
      if (!same_bits(*memory, want)) throw std::runtime_error(cat("another sum in window ", window));
      if (sums.cost().seconds <= 0) throw std::runtime_error("a sum that took no time");
    }
  });
}

TEST_CASE("training with sums in 16 bits", "[ranks]") {
  const TempDir folder;
  RankedRun job(folder / "run");
  job.config.max_steps = 20;
  const std::vector<Replica> exact = job.run(4, 8);
  for (const DType sent : {DType::f16, DType::bf16}) {
    job.config.grad_reduce_dtype = sent;
    job.config.overlap_sums = true;
    const std::vector<Replica> ranks = job.run(4, 8);
    require_equal(ranks);
    CHECK(ranks[0].params != exact[0].params);
    // A step of AdamW has about the size of the rate, 0.01, also for small gradients. Rounding them to 16 bits (2^-9 or
    // less) changes the direction of only a few of the 20 steps.
    CHECK(furthest(ranks[0].losses, exact[0].losses) <= 0.02);
    job.config.overlap_sums = false;
    CHECK(job.run(4, 8)[1].params == ranks[0].params);
    CHECK(job.run(1, 8)[0].params == [&] {
      job.config.grad_reduce_dtype = DType::f32;
      return job.run(1, 8)[0].params;
    }());  // a single rank sends nothing, so the type has no effect
  }
  job.config.grad_reduce_dtype = DType::f16;
  require_skipped_together(job);
}

TEST_CASE("a gradient that is finished twice is an error of the program", "[ranks]") {
  const FlatLayout layout = layout_of_many();
  const auto memory = std::make_shared<std::vector<float>>(static_cast<size_t>(layout.trained_size()));
  GradientReducer sums(one_rank(), layout, DeviceMemory(memory, memory->data()));
  sums.done(3, nullptr);  // ignored, because parameter 3 is frozen
  sums.done(0, nullptr);
  expect_error(
      "E_INTERNAL", "finished twice", [&] { sums.done(0, nullptr); }, Exit::internal);
}

TEST_CASE("a rank that fails during backward leaves its sums under way", "[ranks]") {
  const FlatLayout layout = layout_of_many();
  CHECK_THROWS_WITH(on_ranks(2,
                             [&](Communicator& rank) {
                               const auto memory =
                                   std::make_shared<std::vector<float>>(static_cast<size_t>(layout.trained_size()));
                               GradientReducer sums(rank, layout, DeviceMemory(memory, memory->data()));
                               run_backward(sums, {6, 5, 4, 2, 1, 0}, 6);
                               sums.finish();  // from this step on the order is known
                               run_backward(sums, {6, 5, 4, 2, 1, 0}, rank.rank() == 1 ? 6 : 0);
                               if (rank.rank() == 1) throw std::runtime_error("out of paper");
                               sums.finish();
                             }),
                    "out of paper");
}

TEST_CASE("training overlaps its sums, or does not, with the same bits", "[ranks]") {
  const test::TempDir folder;
  RankedRun job(folder / "run");
  job.graph = random_graph(R"(
    input x
    param w1 6 2048
    param b1 2048
    param w2 2048 600
    param w3 600 3
    p = MatMul(x, w1)
    h = Add(p, b1)
    a = Tanh(h)
    q = MatMul(a, w2)
    c = Tanh(q)
    y = MatMul(c, w3)
    output y)",
                           "w1 0.5\nb1 0.1\nw2 0.05\nw3 0.1");
  job.config.max_steps = 8;
  const bool sam = GENERATE(false, true);
  if (sam) job.config.optimizer.sam_rho = 0.05;
  job.config.overlap_sums = true;
  const std::vector<Replica> early = job.run(3, 9);
  job.config.overlap_sums = false;
  const std::vector<Replica> late = job.run(3, 9);
  require_equal(early);
  CHECK(early[0].params == late[0].params);
  CHECK(early[0].losses == late[0].losses);
  CHECK(early[0].result.sum_seconds > 0);
  CHECK(late[0].result.sum_seconds > 0);
}
