// Losses and their gradients against PyTorch (losses.json, made by make_losses.py), in fp64 and fp32, as a whole batch
// and in micro-batches.
#include "trainer/losses/losses.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/interpreter.h"
#include "base/error.h"
#include "graph/autodiff.h"
#include "tests/support.h"
#include "trainer/losses/loss.h"
#include "trainer/losses/loss_text.h"

using namespace amp;

namespace {

HostTensor tensor(const nlohmann::json& j) {
  const HostTensor t = HostTensor::of<double>(j.at("dims").get<Dims>(), j.at("data").get<std::vector<double>>());
  return j.at("float").get<bool>() ? t : t.cast(DType::i64);
}

struct Case {
  std::string name;
  LossSpec spec;
  std::vector<HostTensor> outputs, grads;
  HostTensor label, teacher, second;
  int64_t rows = 0;
  double loss = 0;
};

std::vector<Case> cases() {
  std::ifstream f(test::test_data("trainer/losses.json"));
  std::vector<Case> out;
  for (const auto& j : nlohmann::json::parse(f)) {
    Case c;
    c.name = j.at("spec").at("kind").get<std::string>() + ": " + j.at("name").get<std::string>();
    c.spec = parse_losses({j.at("spec").dump()}).at(0);
    for (const auto& o : j.at("outputs")) c.outputs.push_back(tensor(o));
    for (const auto& g : j.at("grads")) c.grads.push_back(tensor(g));
    if (!j.at("label").is_null()) c.label = tensor(j.at("label"));
    if (!j.at("teacher").is_null()) c.teacher = tensor(j.at("teacher"));
    if (j.contains("second")) c.second = tensor(j.at("second"));
    c.rows = j.at("rows");
    c.loss = j.at("loss");
    for (size_t i = 0; i < c.outputs.size(); ++i) c.spec.outputs.push_back(cat("out", i));
    out.push_back(std::move(c));
  }
  return out;
}

Tensors batch_of(const Case& c) {
  Tensors batch;
  batch["inputs"] = HostTensor::zeros(DType::f32, {c.rows});
  if (c.label) batch["label"] = c.label;
  return batch;
}

struct Result {
  std::vector<double> sums;
  std::vector<std::vector<double>> grads;
};

// Runs one micro-batch whose outputs are graph inputs.
Result run(const Case& c, DType type, const std::vector<double>& seeds) {
  Graph g;
  Builder b(g, cpu_evaluator());
  std::map<std::string, HostTensor> feeds;
  LossInputs in;
  const auto feed = [&](const std::string& name, const HostTensor& t) {
    feeds[name] = is_float(t.dtype()) ? t.cast(type) : t;
    return g.add_input(name, feeds[name].dtype(), t.dims());
  };
  for (size_t i = 0; i < c.outputs.size(); ++i) in.outputs.push_back(feed(cat("out", i), c.outputs[i]));
  if (c.label) in.label = feed("label", c.label);
  if (c.teacher) in.teacher.push_back(feed("teacher", c.teacher));
  if (c.second) in.second_label = feed("second", c.second);
  in.rows = c.rows;
  const std::vector<ValueId> sums = build_loss(b, c.spec, in);
  REQUIRE(sums.size() == seeds.size());
  Autodiff ad(b, in.outputs);
  for (size_t i = 0; i < sums.size(); ++i) {
    CHECK(b.dims(sums[i]).empty());
    g.outputs.push_back({cat("loss", i), sums[i]});
    ad.seed(sums[i], b.scalar(seeds[i], b.dtype(sums[i])));
  }
  ad.run();
  for (size_t i = 0; i < in.outputs.size(); ++i) {
    const ValueId d = ad.grad(in.outputs[i]);
    if (d) g.outputs.push_back({cat("d", i), d});
  }
  const Interpreted done = interpret(g, feeds, {});
  Result r;
  for (size_t i = 0; i < sums.size(); ++i) r.sums.push_back(done.outputs.at(cat("loss", i)).to_doubles().at(0));
  for (size_t i = 0; i < in.outputs.size(); ++i) {
    const auto d = done.outputs.find(cat("d", i));
    r.grads.push_back(d == done.outputs.end() ? std::vector<double>(static_cast<size_t>(c.outputs[i].numel()))
                                              : d->second.to_doubles());
  }
  return r;
}

void compare(const std::vector<double>& have, const std::vector<double>& want, double tolerance) {
  REQUIRE(have.size() == want.size());
  double largest = 0;
  for (const double w : want) largest = std::max(largest, std::abs(w));
  for (size_t i = 0; i < want.size(); ++i) {
    INFO("element " << i << ": " << have[i] << ", want " << want[i]);
    CHECK(std::abs(have[i] - want[i]) <= tolerance * std::max(largest, 1e-3));
  }
}

HostTensor rows_of(const HostTensor& t, int64_t begin, int64_t end) {
  if (!t) return t;
  Dims d = t.dims();
  const int64_t row = t.numel() / d[0];
  d[0] = end - begin;
  const std::vector<double> all = t.to_doubles();
  return HostTensor::of<double>(d, {all.begin() + begin * row, all.begin() + end * row}).cast(t.dtype());
}

}  // namespace

TEST_CASE("every loss and its gradient equal PyTorch's", "[losses]") {
  std::set<std::string> kinds;
  for (const Case& c : cases()) {
    INFO(c.name);
    kinds.insert(c.spec.kind);
    for (const auto& [type, tolerance] : {std::pair{DType::f64, 1e-10}, std::pair{DType::f32, 2e-5}}) {
      INFO(name_of(type));
      const Losses losses(c.spec);
      LossAccumulator window(losses);
      window.count(batch_of(c));
      const Result r = run(c, type, window.seeds(1));
      window.add(r.sums);
      CHECK(std::abs(window.loss() - c.loss) <= tolerance * std::max(1.0, std::abs(c.loss)));
      for (size_t i = 0; i < c.grads.size(); ++i) compare(r.grads[i], c.grads[i].to_doubles(), tolerance);
    }
  }
  for (const std::string& kind : loss_kinds()) {
    INFO(kind << " has no case");
    // Losses of gradients are tested in tests/zoo/gradient_penalty_test.cc.
    if (!loss_rule(kind).of_gradient) CHECK(kinds.count(kind));
  }
}

TEST_CASE("micro-batches add up to the whole batch", "[losses]") {
  size_t tried = 0;
  for (const Case& c : cases()) {
    const bool alone = c.outputs.size() == 1 && c.outputs[0].rank() > 0 && c.rows > 1 &&
                       c.rows == c.outputs[0].dims().at(0) && (!c.label || c.label.dims()[0] == c.rows);
    if (!alone || c.spec.kind.rfind("rmspe", 0) == 0 || c.spec.kind == "multiple_negatives" ||
        c.spec.kind == "triplet" || c.spec.kind == "kto")
      continue;
    INFO(c.name);
    ++tried;
    const Losses losses(c.spec);
    LossAccumulator window(losses);
    std::vector<Case> parts;
    for (const auto& [begin, end] : {std::pair{int64_t{0}, c.rows / 3 + 1}, std::pair{c.rows / 3 + 1, c.rows}}) {
      Case part = c;
      part.outputs[0] = rows_of(c.outputs[0], begin, end);
      part.label = rows_of(c.label, begin, end);
      part.teacher = rows_of(c.teacher, begin, end);
      part.rows = end - begin;
      window.count(batch_of(part));
      parts.push_back(std::move(part));
    }
    std::vector<double> grads;
    for (const Case& part : parts) {
      const Result r = run(part, DType::f64, window.seeds(1));
      window.add(r.sums);
      grads.insert(grads.end(), r.grads[0].begin(), r.grads[0].end());
    }
    CHECK(std::abs(window.loss() - c.loss) <= 1e-10 * std::max(1.0, std::abs(c.loss)));
    compare(grads, c.grads[0].to_doubles(), 1e-10);
  }
  CHECK(tried > 40);
}

TEST_CASE("several losses add up by weight, terms without items stand aside", "[losses]") {
  const std::vector<LossSpec> parts = parse_losses({"mse,weight=0.25", "cross_entropy,label=class,weight=2"});
  Losses losses;
  losses.parts = parts;
  CHECK(losses.labels() == std::vector<std::string>{"label", "class"});
  LossAccumulator w(losses);
  w.count({{"x", HostTensor::zeros(DType::f32, {2, 3})},
           {"label", HostTensor::zeros(DType::f32, {2, 3})},
           {"class", HostTensor::of<int64_t>({2}, {1, -100})}});
  CHECK(w.seeds(8) == std::vector<double>{8 * 0.25 / 6, 8 * 2.0});
  w.add({12, 3});
  CHECK(w.loss() == 0.25 * 2 + 2 * 3);
  LossAccumulator none(losses);
  none.count({{"x", HostTensor::zeros(DType::f32, {1, 3})},
              {"label", HostTensor::zeros(DType::f32, {1, 3})},
              {"class", HostTensor::of<int64_t>({1}, {-100})}});
  none.add({3, 0});
  CHECK(none.seeds(1) == std::vector<double>{0.25 / 3, 0});
  CHECK(none.loss() == 0.25);
  none.add({std::nan(""), 0});
  CHECK(std::isnan(none.loss()));
}

TEST_CASE("labels that do not fit are data errors", "[losses]") {
  const auto error = [](const std::string& spec, Dims out, HostTensor label) -> std::string {
    Case c;
    c.spec = parse_losses({spec}).at(0);
    c.outputs = {HostTensor::zeros(DType::f64, out)};
    c.spec.outputs = {"out0"};
    c.label = label;
    c.rows = out[0];
    try {
      run(c, DType::f32, term_weights(c.spec));
    } catch (const Error& e) {
      return e.id();
    }
    return "none";
  };
  const auto ints = [](Dims d, int64_t v) {
    return HostTensor::of<int64_t>(d, std::vector<int64_t>(static_cast<size_t>(numel(d)), v));
  };
  CHECK(error("cross_entropy", {4, 3}, ints({3}, 0)) == "E_DATA_SHAPE");
  CHECK(error("cross_entropy", {4, 3}, HostTensor::zeros(DType::f32, {4})) == "E_DATA_LABEL");
  CHECK(error("cross_entropy", {4, 3}, ints({4}, 3)) == "E_DATA_LABEL");
  CHECK(error("cross_entropy", {4, 3}, ints({4}, -1)) == "E_DATA_LABEL");
  for (const char* kind : {"cross_entropy,label_smoothing=0.1", "focal"}) {
    CHECK(error(kind, {4, 3}, ints({4}, 3)) != "none");
    CHECK(error(kind, {4, 3}, ints({4}, -1)) != "none");
  }
  CHECK(error("dice", {2, 3, 4}, ints({2, 4}, 3)) != "none");
  CHECK(error("dice", {2, 3, 4}, ints({2, 4}, -1)) != "none");
  CHECK(error("dice", {2, 3, 4}, ints({2, 5}, 0)) == "E_DATA_SHAPE");
  CHECK(error("mse", {4, 3}, HostTensor::zeros(DType::f32, {4})) == "E_DATA_SHAPE");
  CHECK(error("bce_logits,pos_weight=1:2", {4, 3}, HostTensor::zeros(DType::f32, {4, 3})) == "E_LOSS");
  CHECK(error("cross_entropy,class_weights=1:2", {4, 3}, ints({4}, 0)) == "E_LOSS");
  CHECK(error("causal_lm", {4, 3}, ints({4}, 0)) == "E_DATA_SHAPE");
  CHECK(error("kl", {4, 3}, ints({4, 3}, 0)) == "E_DATA_SHAPE");
  CHECK(error("cosine_mse", {3, 4}, ints({1}, 0)) == "E_DATA_SHAPE");
}
