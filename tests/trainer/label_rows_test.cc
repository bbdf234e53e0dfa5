// Row selection: losses and gradients equal those of a session that computes all rows, for losses, precisions and
// batches with few, no or all labels. The numbers of rows in the graph show that the head computes only rows with a
// label. Models in which another output reads the rows compute all of them.
#include "trainer/compile/label_rows.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <map>
#include <set>

#include "backend/interpreter.h"
#include "base/text.h"
#include "padding_models.h"
#include "precision/decide.h"
#include "small_run.h"
#include "trainer/loop/micro_batches.h"

using namespace amp;
using namespace amp::test;

namespace {

constexpr int64_t kBatch = 4, kLength = 16, kWords = 11;

const std::string kScales = "E 0.8\nP 0.5\nWq 0.5\nWk 0.5\nWv 0.5\nWo 0.4\n";
// A head as in BERT: a dense layer, a norm, and the table of embeddings with a bias. Logits are capped, as in Gemma.
const std::string kTied = R"(
    param Wt 8 8
    param wb 11
    const cap = 3
    a0 = MatMul(t, Wt)
    a1 = com.microsoft::Gelu(a0)
    a2 = LayerNormalization{axis=-1,epsilon=0.00001}(a1, gamma, beta)
    Et = Transpose{perm=[1 0]}(E)
    z0 = MatMul(a2, Et)
    z1 = Add(z0, wb)
    z2 = Div(z1, cap)
    z3 = Tanh(z2)
    y = Mul(z3, cap)
    output y
)";
const std::string kTiedScales = "Wt 0.5\nwb 0.3\n";
// A second head that reads the same rows.
const std::string kSecond = "param Wc 8 3\nx = MatMul(t, Wc)\noutput x\n";

std::string encoder() { return amp::test::encoder(mask_kinds()[0], kNoMix); }
SourceGraph tied_model(const std::string& more = "", const std::string& scales = "") {
  return random_graph(encoder() + kTied + more, kScales + kTiedScales + scales);
}

LossSpec loss_of(const std::string& kind, const std::string& output = "y", const std::string& label = "label") {
  LossSpec s{kind};
  s.outputs = {output};
  s.label = label;
  return s;
}

// Returns a batch with labels at the first, the last and other positions of some sequences. every: a label at
// every position that is a multiple of it; 0: none.
Tensors batch_of(int64_t every, int64_t length = kLength, int64_t padded = 0) {
  std::vector<int64_t> ids, mask, label, other;
  for (int64_t i = 0; i < kBatch * length; ++i) {
    const int64_t s = i % length;
    const bool there = s < length - (i / length == 1 ? 0 : padded);
    ids.push_back((7 * i + i / 5) % kWords);
    mask.push_back(there);
    label.push_back(there && every > 0 && i % every == 0 ? (3 * i + 2) % kWords : -100);
    other.push_back(there && every > 0 && i % (every + 4) == 1 ? i % 3 : -100);
  }
  const Dims d{kBatch, length};
  return {{"ids", HostTensor::of<int64_t>(d, ids)},
          {"mask", HostTensor::of<int64_t>(d, mask)},
          {"label", HostTensor::of<int64_t>(d, label)},
          {"other", HostTensor::of<int64_t>(d, other)},
          {teacher_name("y"), normal({kBatch, length, kWords}, 1, 77)}};
}

std::vector<double> gradients(Session& s) {
  std::vector<double> all;
  for (int slot = 0; slot < static_cast<int>(s.table().size()); ++slot) {
    const std::vector<double> g = s.has_grad(slot) ? s.grad(slot).to_doubles() : std::vector<double>{};
    all.insert(all.end(), g.begin(), g.end());
  }
  return all;
}

// Returns the largest difference, relative to the largest element.
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

struct Pair {
  Pair(const SourceGraph& g, SessionOptions o, const Losses& losses) : some(g, o), all(g, off(o)), losses(losses) {}
  static SessionOptions off(SessionOptions o) {
    o.skip_unlabeled = false;
    return o;
  }
  // Compares a step of these micro-batches; returns the number of rows that the first micro-batch computes.
  int64_t check_step(const std::vector<Tensors>& batches, double tolerance) {
    std::vector<double> sums[2], grads[2];
    for (Session* s : {&some, &all}) {
      const auto k = static_cast<size_t>(s == &all);
      s->state().step = steps;
      s->prepare(losses, batches[0]);
      s->stage_statistics();
      LossAccumulator window(losses);
      for (const Tensors& b : batches) window.count(b);
      sums[k] = run_micro_batches(*s, losses, batches, window.seeds(1));
      grads[k] = gradients(*s);
    }
    ++steps;
    CHECK(distance(sums[1], sums[0]) <= tolerance);
    CHECK(distance(grads[1], grads[0]) <= tolerance);
    CHECK(all.label_rows(losses, batches[0]) == 0);
    return some.label_rows(losses, batches[0]);
  }
  Session some, all;
  Losses losses;
  int64_t steps = 0;
};

SessionOptions low_options(const SourceGraph& g, DType low) {
  SessionOptions o;
  if (low == DType::f64) o.float_type = low;
  if (!is_low(low)) return o;
  const PrecisionPlan plan = decide(g, load_op_list("O1"), low);
  o.low = plan.low;
  for (const Decision& d : plan.nodes) o.compute.push_back(dtype_of(d.compute));
  return o;
}

std::map<std::string, Losses> token_losses() {
  std::map<std::string, Losses> all;
  for (const char* kind : {"cross_entropy", "causal_lm", "masked_lm", "focal"}) all[kind] = loss_of(kind);
  LossSpec smooth = loss_of("causal_lm"), weighted = loss_of("cross_entropy"), both = loss_of("masked_lm");
  smooth.set("label_smoothing", {0.1});
  both.set("label_smoothing", {0.2});
  for (LossSpec* s : {&weighted, &both}) s->set("class_weights", {1, 2, 0.5, 1, 1, 3, 1, 1, 0.2, 1, 1});
  all["smoothed causal_lm"] = smooth;
  all["weighted"] = weighted;
  all["weighted and smoothed"] = both;
  LossSpec taught = loss_of("distill");
  taught.set("temperature", {2});
  all["distill"] = taught;
  Losses two(loss_of("masked_lm"));
  two.parts.push_back(taught);
  all["two losses of the same logits"] = two;
  return all;
}

}  // namespace

TEST_CASE("with rows of labels only, losses and gradients are the same", "[label_rows]") {
  const SourceGraph g = tied_model();
  for (const auto& [name, losses] : token_losses()) {
    for (const bool padding : {false, true}) {
      INFO(name << (padding ? ", padding removed" : ""));
      Pair p(g, {}, losses);
      const bool next = name.find("causal") != std::string::npos;
      // Without padding, the graph of these losses has values of all positions after the logits (ScatterRows).
      const bool whole = padding && !next && name != "cross_entropy" && name != "masked_lm";
      const int64_t count = next ? kBatch * (kLength - 1) : padding ? 48 : 64;
      for (const int64_t every : {9, 0, 30, 2, 1}) {
        INFO("a label every " << every << " tokens");
        const int64_t rows = p.check_step({batch_of(every, kLength, padding ? 7 : 0)}, 2e-6);
        if (whole)
          CHECK(rows == 0);
        else if (every == 1)
          CHECK(rows == (padding && next ? 40 : 0));
        else
          CHECK((rows > 0 && rows < count));
        if (every == 0) CHECK(rows == (whole ? 0 : 8));
      }
    }
  }
}

TEST_CASE("the rows of labels are the same in 16 bits and fp64", "[label_rows]") {
  const SourceGraph g = tied_model();
  for (const DType low : {DType::bf16, DType::f16, DType::f64}) {
    for (const char* name : {"causal_lm", "smoothed causal_lm", "masked_lm"}) {
      INFO(name_of(low) << ", " << name);
      Pair p(g, low_options(g, low), token_losses().at(name));
      // In 16 bits, both sessions round the same products. They add a weight's gradient in fp32 in different orders,
      // and the plan may round the result to 16 bits.
      const double tolerance = low == DType::f64 ? 1e-12 : low == DType::bf16 ? 1e-2 : 2e-3;
      for (const int64_t every : {9, 0, 2}) CHECK(p.check_step({batch_of(every)}, tolerance) > 0);
    }
  }
}

TEST_CASE("micro-batches with different numbers of labels accumulate", "[label_rows]") {
  const SourceGraph g = tied_model();
  for (const char* name : {"causal_lm", "weighted and smoothed"}) {
    Pair p(g, {}, token_losses().at(name));
    CHECK(p.check_step({batch_of(9), batch_of(1), batch_of(0), batch_of(2, 12), batch_of(30)}, 2e-6) > 0);
    CHECK(p.some.programs().size() > p.all.programs().size());
  }
}

TEST_CASE("two heads with labels of their own read the rows of both", "[label_rows]") {
  const SourceGraph g = tied_model(kSecond, "Wc 0.5\n");
  Losses two(loss_of("masked_lm"));
  two.parts.push_back(loss_of("cross_entropy", "x", "other"));
  Pair p(g, {}, two);
  for (const int64_t every : {9, 0, 30}) CHECK(p.check_step({batch_of(every)}, 2e-6) > 0);
  const std::vector<int64_t> label = batch_of(9).at("label").to_ints(), other = batch_of(9).at("other").to_ints();
  int64_t either = 0;
  for (size_t i = 0; i < label.size(); ++i) either += label[i] >= 0 || other[i] >= 0;
  CHECK(p.some.label_rows(two, batch_of(9)) == rounded_rows(either, kBatch * kLength));
}

TEST_CASE("dropout after the last attention has the same bits", "[label_rows]") {
  const std::string text = encoder() + "const ratio = 0.3\nconst train bool = 1\nd = Dropout(t, ratio, train)\n" +
                           "param Wc 8 11\ny = MatMul(d, Wc)\noutput y\n";
  const SourceGraph g = random_graph(text, kScales + "Wc 0.5\n");
  for (const char* kind : {"causal_lm", "masked_lm"}) {
    for (const int64_t padded : {0, 7}) {
      INFO(kind << ", " << padded << " padded positions");
      Pair p(g, {}, loss_of(kind));
      for (int step = 0; step < 3; ++step) CHECK(p.check_step({batch_of(9, kLength, padded)}, 2e-6) > 0);
    }
  }
}

TEST_CASE("all rows are computed where something else reads them", "[label_rows]") {
  const SourceGraph g = tied_model();
  Losses whole(loss_of("masked_lm"));
  LossSpec taught = loss_of("distill");
  taught.label = "";  // without labels, all positions are compared
  whole.parts.push_back(taught);
  Pair p(g, {}, whole);
  CHECK(p.check_step({batch_of(9)}, 1e-12) == 0);

  // A convolution over neighboring tokens after the head's first product: only the products after it lose rows.
  const SourceGraph mixed =
      random_graph(encoder() +
                       "param F 8 8 3\nn0 = Transpose{perm=[0 2 1]}(t)\nn1 = Conv{pads=[1 1]}(n0, F)\n"
                       "n2 = Transpose{perm=[0 2 1]}(n1)\nparam Wc 8 11\ny = MatMul(n2, Wc)\noutput y\n",
                   kScales + "F 0.3\nWc 0.5\n");
  Pair q(mixed, {}, loss_of("masked_lm"));
  CHECK(q.check_step({batch_of(9)}, 2e-6) > 0);

  // Softmax over the sequence reads the logits of all positions.
  const SourceGraph over = random_graph(encoder() +
                                            "param Wc 8 11\ny0 = MatMul(t, Wc)\ny1 = Softmax{axis=1}(y0)\n"
                                            "y = Add(y0, y1)\noutput y\n",
                                        kScales + "Wc 0.5\n");
  Pair r(over, {}, loss_of("masked_lm"));
  CHECK(r.check_step({batch_of(9)}, 1e-12) == 0);

  // The labels are numbers.
  Pair s(g, {}, loss_of("mse"));
  Tensors numbers = batch_of(9);
  numbers["label"] = normal({kBatch, kLength, kWords}, 1, 3);
  CHECK(s.check_step({numbers}, 1e-12) == 0);
}

TEST_CASE("products after the last attention have the rows of labels", "[label_rows]") {
  const SourceGraph g = tied_model();
  Session s(g, {});
  const Losses losses = loss_of("causal_lm");
  const Tensors batch = batch_of(9);
  const int64_t rows = s.label_rows(losses, batch);
  const std::shared_ptr<const Graph> graph = s.labeled_graph(losses, batch);
  int64_t logits = 0, wide = 0;
  for (int32_t i = 0; i < graph->n_values(); ++i) {
    const Dims& d = graph->value(ValueId{i}).dims;
    if (graph->value(ValueId{i}).kind != ValueKind::temp || d.size() < 2 || d.back() != kWords) continue;
    logits += numel(d) == rows * kWords;
    wide += numel(d) > rows * kWords && numel(d) != 8 * kWords;  // except the transposed table, which has 8 rows
  }
  CHECK(rows == 8);  // labels at 8 of 64 positions, of which one is the first of its sequence
  CHECK(logits > 0);
  CHECK(wide == 0);
}

TEST_CASE("evaluation without outputs computes the same losses from fewer rows", "[label_rows]") {
  const SourceGraph g = tied_model();
  const Losses losses = token_losses().at("smoothed causal_lm");
  Pair p(g, {}, losses);
  for (const int64_t every : {9, 0, 2}) {
    const Tensors batch = batch_of(every, kLength, 7);
    CHECK(distance(p.all.eval_micro_batch(losses, batch), p.some.eval_micro_batch(losses, batch)) <= 2e-6);
    Tensors outputs;
    p.some.eval_micro_batch(losses, batch, &outputs);
    CHECK(outputs.at("y").dims() == Dims{kBatch, kLength, kWords});
  }
}

TEST_CASE("numbers of rows are rounded up to few sizes", "[label_rows]") {
  for (const int64_t count : {2, 9, 96, 1020, 1024, 8192}) {
    INFO(count);
    std::set<int64_t> sizes;
    for (int64_t n = 0; n <= count; ++n) {
      const int64_t rows = rounded_rows(n, count);
      REQUIRE(rows >= n);
      REQUIRE(rows <= count);
      REQUIRE(rows <= std::max<int64_t>(16, n + std::max(n / 2, count / 8) + 8));
      sizes.insert(rows);
    }
    CHECK(sizes.size() <= 24);
  }
  CHECK(rounded_rows(0, 1024) == 16);
  CHECK(rounded_rows(77, 1024) == 96);
  CHECK(rounded_rows(530, 1024) == 640);
  CHECK(rounded_rows(1024, 1024) == 1024);
}
