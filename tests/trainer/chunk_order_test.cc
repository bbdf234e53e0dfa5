// Row selection in chunks: losses and gradients equal those of one chunk, the nodes of a chunk follow each other, and
// the logits of only one chunk are stored.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <map>
#include <set>

#include "backend/interpreter.h"
#include "backend/program_plan.h"
#include "base/text.h"
#include "ops/passes/label_rows.h"
#include "padding_models.h"
#include "small_run.h"
#include "trainer/compile/label_rows.h"
#include "trainer/loop/micro_batches.h"

using namespace amp;
using namespace amp::test;

namespace {

constexpr int64_t kBatch = 4, kLength = 16, kWords = 11;

SourceGraph tied_model() {
  return random_graph(encoder(mask_kinds()[0], kNoMix) + "param Wt 8 8\na0 = MatMul(t, Wt)\na1 = Tanh(a0)\n" +
                          "Et = Transpose{perm=[1 0]}(E)\ny = MatMul(a1, Et)\noutput y\n",
                      "E 0.8\nP 0.5\nWq 0.5\nWk 0.5\nWv 0.5\nWo 0.4\nWt 0.5\n");
}

Tensors batch_of(int64_t every) {
  std::vector<int64_t> ids, label;
  for (int64_t i = 0; i < kBatch * kLength; ++i) {
    ids.push_back((7 * i + i / 5) % kWords);
    label.push_back(i % every == 0 ? (3 * i + 2) % kWords : -100);
  }
  const Dims d{kBatch, kLength};
  return {{"ids", HostTensor::of<int64_t>(d, ids)},
          {"mask", HostTensor::of<int64_t>(d, std::vector<int64_t>(ids.size(), 1))},
          {"label", HostTensor::of<int64_t>(d, label)},
          {teacher_name("y"), normal({kBatch, kLength, kWords}, 1, 77)}};
}

struct Compiled {
  Graph graph;
  Interpreted result;
};

// Compiles and runs the training graph of these rows in chunks.
Compiled compiled(const SourceGraph& g, const Losses& losses, const Tensors& batch, const std::vector<int64_t>& rows,
                  int64_t chunk) {
  const ParamTable table(g);
  const GraphCompiler compiler(g, table, {}, cpu_device().traits());
  const GraphRequest r{GraphForm::train, &losses, {}, batch};
  const std::shared_ptr<Graph> whole = compiler.compose(r);
  const auto selection = find_label_rows(*whole, {{"label", -100}}, cpu_evaluator());
  REQUIRE(selection);
  CHECK(selection->widest == 12);  // width of the first product after attention
  const auto n = static_cast<int64_t>(rows.size());
  auto some = std::make_shared<Graph>(select_rows(*whole, *selection, n, chunk, cpu_evaluator()));
  Compiled out{order_chunks(*compiler.finish(some, r)), {}};
  Tensors inputs = batch;
  inputs[kRowInput] = HostTensor::of<int64_t>({n}, rows);
  for (size_t i = 0; i < losses.parts.size(); ++i)
    inputs[seed_input(i)] = HostTensor::scalar<float>(0.25F + static_cast<float>(i));
  std::vector<HostTensor> params;
  for (const int v : table.source_value) params.push_back(g.values[static_cast<size_t>(v)].data);
  out.result = interpret(out.graph, inputs, params);
  return out;
}

double distance(const HostTensor& a, const HostTensor& b) {
  const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
  REQUIRE(x.size() == y.size());
  double top = 1e-12, apart = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    REQUIRE(std::isfinite(y[i]));
    top = std::max(top, std::abs(x[i]));
    apart = std::max(apart, std::abs(x[i] - y[i]));
  }
  return apart / top;
}

Losses losses_of(const std::string& name) {
  LossSpec s{name == "two" || name == "smoothed" ? "causal_lm" : name};
  s.outputs = {"y"};
  s.label = "label";
  if (name == "smoothed") s.set("label_smoothing", {0.1});
  Losses out(s);
  if (name != "two") return out;
  out.parts.push_back(s);
  out.parts[1].set("label_smoothing", {0.3});
  return out;
}

// Examines the nodes whose results have kWords columns, in the order of execution. Returns how often two successive
// ones belong to different chunks.
int changes(const Graph& g, int64_t chunk) {
  std::vector<int64_t> of(static_cast<size_t>(g.n_values()), -1);
  int count = 0;
  int64_t last = -1;
  for (int32_t i = 0; i < g.n_nodes(); ++i) {
    const Node& n = g.node(NodeId{i});
    int64_t start = -1, parts = 0;
    for (const ValueId v : n.in) {
      const int64_t at = v ? of[static_cast<size_t>(v.index)] : -1;
      if (at >= 0 && at != start) ++parts;
      start = std::max(start, at);
    }
    if (n.op->name == "Slice" && g.value(n.in[0]).name == kRowInput) start = n.attrs.ints("starts")[0] / chunk;
    for (const ValueId v : n.out) of[static_cast<size_t>(v.index)] = parts > 1 ? -1 : start;
    if (parts > 1 || start < 0 || g.value(n.out[0]).dims.empty() || g.value(n.out[0]).dims.back() != kWords) continue;
    count += start != last;
    last = start;
  }
  return count;
}

}  // namespace

TEST_CASE("chunks of rows have the losses and gradients of all rows together", "[label_rows][chunks]") {
  const SourceGraph g = tied_model();
  for (const char* name : {"causal_lm", "masked_lm", "smoothed", "focal", "distill", "two"}) {
    const Losses losses = losses_of(name);
    const Tensors batch = batch_of(2);
    const int64_t count = losses.parts[0].kind == "causal_lm" ? kBatch * (kLength - 1) : kBatch * kLength;
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < count; ++row) rows.push_back(row);
    const Compiled one = compiled(g, losses, batch, rows, count);
    CHECK(changes(one.graph, count) == 0);
    for (const int64_t chunk : {1, 7, 20, 59}) {
      INFO(name << ", " << chunk << " of " << count << " rows");
      const Compiled many = compiled(g, losses, batch, rows, chunk);
      CHECK(changes(many.graph, chunk) == (count + chunk - 1) / chunk);
      for (const auto& [output, sum] : one.result.outputs) CHECK(distance(sum, many.result.outputs.at(output)) < 1e-6);
      CHECK(one.result.param_grads.size() == many.result.param_grads.size());
      for (const auto& [slot, grad] : one.result.param_grads)
        CHECK(distance(grad, many.result.param_grads.at(slot)) < 2e-6);
    }
  }
}

TEST_CASE("a mean over the labels in the graph is computed in one chunk", "[label_rows][chunks]") {
  // Each row is divided by the number of labels, which depends on all rows.
  SourceGraph g =
      random_graph(encoder(mask_kinds()[0], kNoMix) +
                       "input label int64\nparam Wc 8 11\nconst ignored int64 = -100\nconst both int64 2 = 0 1\n"
                       "l0 = MatMul(t, Wc)\nl1 = LogSoftmax{axis=-1}(l0)\nl2 = ReduceMean{axes=[2],keepdims=0}(l1)\n"
                       "gone = Equal(label, ignored)\nrow = Where(gone, zerof, l2)\nthere = Where(gone, zerof, onef)\n"
                       "items = ReduceSum{keepdims=1}(there, both)\nshare = Div(row, items)\n"
                       "kept = Where(gone, zerof, share)\ny = ReduceSum{keepdims=0}(kept, both)\noutput y\n",
                   "E 0.8\nP 0.5\nWq 0.5\nWk 0.5\nWv 0.5\nWo 0.4\nWc 0.5\n");
  LossSpec s{"model"};
  s.outputs = {"y"};
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < kBatch * kLength; row += 2) rows.push_back(row);
  std::vector<int64_t> all;
  for (int64_t row = 0; row < kBatch * kLength; ++row) all.push_back(row);
  const Compiled one = compiled(g, s, batch_of(4), all, kBatch * kLength), some = compiled(g, s, batch_of(4), rows, 5);
  CHECK(changes(some.graph, 5) == 0);
  for (const auto& [output, sum] : one.result.outputs) CHECK(distance(sum, some.result.outputs.at(output)) < 1e-6);
  for (const auto& [slot, grad] : one.result.param_grads)
    CHECK(distance(grad, some.result.param_grads.at(slot)) < 2e-6);
}

TEST_CASE("the logits of one chunk are stored at a time", "[label_rows][chunks]") {
  constexpr int64_t kMany = 40000, kRows = 1020;  // kRows logits of kMany words take 163 MB
  const auto model = [&](bool trained) {
    SourceGraph g = random_graph(cat("input ids int64\nparam E 11 8\nparam W 8 ", kMany,
                                     "\ne = Gather(E, ids)\na = Tanh(e)\ny = MatMul(a, W)\noutput y\n"),
                                 "E 0.8\nW 0.4\n");
    g.values[static_cast<size_t>(g.find("W"))].trainable = trained;
    return g;
  };
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < kRows; ++i) ids.push_back(7 * i % kWords);
  const Tensors batch{{"ids", HostTensor::of<int64_t>({4, kRows / 4}, ids)},
                      {"label", HostTensor::of<int64_t>({4, kRows / 4}, ids)}};
  const Losses losses = losses_of("masked_lm");
  for (const bool trained : {false, true}) {
    INFO((trained ? "trained head" : "frozen head"));
    const SourceGraph g = model(trained);
    SessionOptions off;
    off.skip_unlabeled = false;
    Session chunks(g, {}), whole(g, off);
    std::vector<double> sums[2];
    for (Session* s : {&chunks, &whole}) {
      s->prepare(losses, batch);
      sums[s == &whole] = run_micro_batch(*s, losses, batch, {0.01});
    }
    CHECK(sums[0].at(0) == Catch::Approx(sums[1].at(0)).epsilon(1e-6));
    for (int slot = 0; slot < static_cast<int>(chunks.table().size()); ++slot) {
      if (chunks.has_grad(slot)) CHECK(distance(whole.grad(slot), chunks.grad(slot)) < 5e-6);
    }
    CHECK(chunks.label_rows(losses, batch) == kRows);
    const int64_t logits = kRows * kMany * 4;
    CHECK(whole.activation_bytes() > logits);
    CHECK(chunks.activation_bytes() < whole.activation_bytes() * (trained ? 8 : 4) / 10);
  }
}

TEST_CASE("rows are divided only where that saves memory", "[label_rows][chunks]") {
  constexpr int64_t kRow = 49152 * 4;
  CHECK(chunk_rows(100, kRow, 0) == 100);
  CHECK(chunk_rows(1024, kRow, 0) == 320);
  CHECK(chunk_rows(8192, 4 * kRow, 0) == 256);
  CHECK(chunk_rows(8192, 400, 0) == 8192);  // 400 bytes per row: 3 MB of logits
  const int64_t weight = kRow * 576;
  // One chunk, because partial gradients of the weight are larger than the logits.
  CHECK(chunk_rows(1024, kRow, weight) == 1024);
  CHECK(chunk_rows(4096, kRow, weight) == 640);
  CHECK(chunk_rows(1024, 0, 0) == 1024);
}
