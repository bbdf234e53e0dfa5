// Counts the launches and memory traffic of a BERT training step without a GPU, so that an additional launch or pass
// over memory is detected.
#include "bench/roofline/roofline.h"

#include <catch2/catch_all.hpp>
#include <fstream>
#include <iterator>

#include "tests/support.h"

using namespace amp;

namespace {

// Upper bounds: the counts when this test was written. Smaller counts are better.
constexpr int64_t kNodes = 305, kMegabytes = 8950;

DeviceDescription described(const char* file) {
  std::ifstream in(test::source_root() + "/bench/roofline/" + file);
  REQUIRE(in);
  return read_device({std::istreambuf_iterator<char>(in), {}});
}

int64_t count(const StepWork& w, const std::string& op) {
  int64_t n = 0;
  for (const cuda::Work& x : w.micro) n += x.op == op;
  return n;
}
double flops(const StepWork& w) {
  double n = 0;
  for (const cuda::Work& x : w.micro) n += x.flops;
  return n;
}

// Operations per micro-batch as PyTorch's FlopCounterMode counts them: products and attention. After the last layer's
// attention only the first token of each row is computed (ops/passes/slice_hoisting.h).
double expected_flops(const BertConfig& c, int64_t batch, int64_t length) {
  const double tokens = static_cast<double>(batch * length), h = static_cast<double>(c.hidden),
               wide = static_cast<double>(c.intermediate), rows = static_cast<double>(batch);
  const double layer = 3 * 2 * tokens * (4 * h * h + 2 * h * wide) + 14 * tokens * static_cast<double>(length) * h;
  const double head = 3 * 2 * rows * (h * h + h * static_cast<double>(c.classes));
  const double left_out = 3 * 2 * (tokens - rows) * (h * h + 2 * h * wide);
  return static_cast<double>(c.layers) * layer - left_out + head;
}

}  // namespace

TEST_CASE("a BERT-base step has as many launches, bytes and operations as it should", "[cuda][roofline]") {
  StepRequest r;  // 32 sequences of 128 tokens, in bf16
  const StepWork w = step_work(r);
  CHECK(w.parameters / 1000000 == 109);
  CHECK(flops(w) == Catch::Approx(expected_flops(r.model, r.batch, r.length)).epsilon(1e-3));
  for (const cuda::Work& x : w.micro) {
    INFO(x.op << ' ' << x.shape);
    CHECK((x.products == 0 || x.products == x.flops));  // all counted products were launched in a library
  }
  CHECK(count(w, "FusedAttention") == 12);
  CHECK(count(w, "FusedAttentionGrad") == 12);
  CHECK(count(w, "AddNorm") + count(w, "LayerNorm") == 25);
  // All other casts are part of kernels. The weights of q, k and v are adjacent, so no Concat joins them.
  CHECK(count(w, "Cast") <= 2);  // the logits and the first tokens
  CHECK(count(w, "Concat") == 0);
  int64_t update_bytes = 0;
  for (const cuda::Work& x : w.update) update_bytes += x.bytes;
  CHECK(update_bytes <= 34 * w.parameters);
  CHECK(w.nodes() <= kNodes);
  const DeviceDescription h200 = described("h200.json");
  int64_t bytes = 0;
  for (const cuda::Work& x : w.micro) bytes += x.bytes;
  // Forward attention stores the rounding error of each row's log-sum-exp (fp32), and backward reads it. kMegabytes is
  // a bound on all other bytes.
  const int64_t rounding = 2 * r.model.layers * r.batch * r.model.heads * r.length * 4;
  CHECK((bytes - rounding) / 1000000 <= kMegabytes);
  CHECK(totals(w.micro, h200).size() <= 40);
  double seconds = 0;
  for (const auto* part : {&w.micro, &w.update, &w.around}) {
    for (const cuda::Work& x : *part) seconds += least_seconds(x, h200);
  }
  CHECK(seconds <= 5.85e-3);
}

// The kernels of attention draw the bits of dropout. (In this graph insert_dropout() finds only the attention.)
TEST_CASE("dropout of attention adds no launch to a BERT-base step", "[cuda][roofline]") {
  StepRequest r;
  r.dropout = 0.1;
  CHECK(step_work(r).nodes() <= kNodes);
}

TEST_CASE("a described device bounds the time of work by memory, arithmetic and launches", "[cuda][roofline]") {
  const DeviceDescription a100 = described("a100.json"), h200 = described("h200.json");
  cuda::Work moves;
  moves.bytes = 1'700'000;
  moves.launches = 1;
  CHECK(least_seconds(moves, a100) == Catch::Approx(1e-6 + a100.node_seconds));
  cuda::Work product = moves;
  product.type = DType::bf16;
  product.flops = 600e6;
  CHECK(least_seconds(product, h200) == Catch::Approx(1e-6 + h200.node_seconds));
  CHECK(least_seconds(product, a100) > least_seconds(product, h200));
  CHECK_THROWS(read_device("{}"));
}
