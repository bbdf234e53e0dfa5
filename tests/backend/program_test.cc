// A Program gives the same bits as the naive interpreter, also in a shared arena and with dead buffers overwritten by
// NaN.
#include "backend/program.h"

#include <catch2/catch_all.hpp>
#include <cmath>

#include "backend/interpreter.h"
#include "tests/backend/small_nets.h"
#include "tests/errors.h"

using namespace amp;
using namespace amp::test;

namespace {

Tensor view(HostTensor& t) { return {t.mutable_data(), t.dtype(), t.dims()}; }

bool equal(const Tensor& a, const HostTensor& b) {
  return a.dtype == b.dtype() && a.dims == b.dims() &&
         std::memcmp(a.data, b.data(), static_cast<size_t>(b.bytes())) == 0;
}

// Parameters in separate memory, gradients in one arena, and options that point to them.
struct Host {
  explicit Host(const Graph& g, uint64_t seed = 5) : params(random_params(g, seed)) {
    int64_t bytes = 0;
    for (const HostTensor& p : params) bytes += (p.bytes() + 63) / 64 * 64;
    gradients = HostTensor::empty(DType::u8, {bytes});
    std::memset(gradients.mutable_data(), 0, static_cast<size_t>(bytes));
    char* at = static_cast<char*>(gradients.mutable_data());
    for (HostTensor& p : params) {
      grads.emplace_back(DType::f32, p.dims(), nullptr, at);
      at += (p.bytes() + 63) / 64 * 64;
      options.params.push_back(view(p));
      options.grads.push_back(view(grads.back()));
    }
    options.arena = &arena;
    options.state = &state;
    options.poison = true;
  }
  HostArena arena;
  RunState state;
  HostTensor gradients;
  std::vector<HostTensor> params, grads;
  ProgramOptions options;
};

void feed(Program& p, const std::map<std::string, HostTensor>& inputs) {
  for (const auto& [name, t] : inputs) p.set_input(name, t);
}

}  // namespace

TEST_CASE("a Program computes what the interpreter computes") {
  const bool scratch = GENERATE(false, true);
  for (const Net& net : small_nets()) {
    DYNAMIC_SECTION(net.name << (scratch ? ", with activations in the gradient arena" : "")) {
      const Graph g = training_graph(net.text);
      Host host(g);
      host.options.gradients_are_scratch = scratch;
      Program p(std::make_shared<Graph>(g), host.options);
      for (uint64_t round = 0; round < 3; ++round) {  // after the first round, the arena has old contents
        const auto inputs = random_inputs(g, 10 + round);
        const Interpreted want = interpret(g, inputs, host.params);
        feed(p, inputs);
        p.run();
        for (const auto& [name, t] : want.outputs) {
          INFO("output " << name << " in round " << round);
          CHECK(std::isfinite(t.to_doubles().at(0)));
          CHECK(equal(p.output(name), t));
        }
        REQUIRE(want.param_grads.size() == host.params.size());
        for (const auto& [slot, t] : want.param_grads) {
          INFO("gradient " << slot << " in round " << round);
          CHECK(equal(host.options.grads.at(static_cast<size_t>(slot)), t));
        }
      }
      int64_t all = 0;
      for (int32_t i = 0; i < g.n_values(); ++i) {
        const Value& v = g.value(ValueId{i});
        if (v.kind == ValueKind::temp) all += numel(v.dims) * size_of(v.dtype);
      }
      CHECK(p.arena_bytes() < all);  // memory is reused: less than the sum of all values
    }
  }
}

TEST_CASE("accumulated gradients are sums over runs") {
  for (const Net& net : small_nets()) {
    DYNAMIC_SECTION(net.name) {
      const Graph g = training_graph(net.text);
      Host host(g);
      host.options.accumulate = true;
      Program p(std::make_shared<Graph>(g), host.options);
      std::vector<std::vector<double>> sums(host.params.size());
      for (uint64_t round = 0; round < 3; ++round) {
        const auto inputs = random_inputs(g, 20 + round);
        feed(p, inputs);
        p.run();
        for (const auto& [slot, t] : interpret(g, inputs, host.params).param_grads) {
          auto& sum = sums[static_cast<size_t>(slot)];
          sum.resize(static_cast<size_t>(t.numel()));
          for (size_t i = 0; i < sum.size(); ++i)
            sum[i] = static_cast<float>(sum[i]) + t.as<float>()[i];  // rounded to fp32 after each addition
        }
      }
      for (size_t s = 0; s < sums.size(); ++s) {
        INFO("gradient " << s);
        for (size_t i = 0; i < sums[s].size(); ++i)
          REQUIRE(host.grads[s].as<float>()[i] == static_cast<float>(sums[s][i]));
      }
    }
  }
}

TEST_CASE("gradients that are added take no memory of their own") {
  // Two layers with gradients of weights and biases. Products add to the gradient arena themselves; other gradients are
  // computed and then added in a separate step.
  const Graph g = training_graph(small_nets()[0].text);
  Host writes(g), adds(g);
  writes.options.poison = adds.options.poison = false;
  adds.options.accumulate = true;
  const Program plain(std::make_shared<Graph>(g), writes.options), sums(std::make_shared<Graph>(g), adds.options);
  CHECK(sums.n_steps() == plain.n_steps() + 2);                   // the biases are added in separate steps
  CHECK(sums.arena_bytes() < plain.arena_bytes() + 40 * 4 + 64);  // the weights' 4,800 bytes need no buffer
}

TEST_CASE("two Programs share an arena, run in turns") {
  const Graph a = training_graph(small_nets()[0].text), b = training_graph(small_nets()[3].text);
  Host ha(a), hb(b);
  hb.options.arena = ha.options.arena;
  Program pa(std::make_shared<Graph>(a), ha.options), pb(std::make_shared<Graph>(b), hb.options);
  for (uint64_t round = 0; round < 2; ++round) {
    const auto ia = random_inputs(a, round), ib = random_inputs(b, round);
    feed(pa, ia);
    pa.run();
    CHECK(equal(pa.output("loss"), interpret(a, ia, ha.params).outputs.at("loss")));
    feed(pb, ib);
    pb.run();
    CHECK(equal(pb.output("loss"), interpret(b, ib, hb.params).outputs.at("loss")));
  }
}

TEST_CASE("a program names its inputs and outputs") {
  CoreText t("input x 4 4\nparam W 4 4\ny = MatMul(x, W)\noutput y");
  Host host(t.graph);
  Program p(std::make_shared<Graph>(t.graph), host.options);
  test::expect_error(
      "E_INPUT", "'z'", [&] { p.input("z"); }, Exit::usage);
  test::expect_error(
      "E_OUTPUT", "'z'", [&] { p.output("z"); }, Exit::usage);
}

TEST_CASE("poison reaches memory that is free") {
  CoreText t("input x 4 4\nparam W 4 4\ny = MatMul(x, W)\noutput y");
  for (const bool poison : {false, true}) {
    Host host(t.graph);
    host.options.poison = poison;
    Program p(std::make_shared<Graph>(t.graph), host.options);
    feed(p, random_inputs(t.graph, 1));
    p.run();
    CHECK(std::isnan(p.input("x").as<float>()[5]) == poison);
    CHECK(std::isfinite(p.output("y").as<float>()[5]));
  }
}

TEST_CASE("16-bit copies of parameters are made once and follow the parameters") {
  // Two casts of one parameter, one of them through a second Program.
  const std::string text = R"(
    input x fp16 3 4
    param W 4 2
    h = Cast(W) {to=2}
    y = MatMul(x, h)
    output y)";
  static_assert(static_cast<int>(DType::f16) == 2);
  CoreText t(text);
  Host host(t.graph);
  ParamCache cache;
  host.options.cache = &cache;
  host.options.poison = false;
  const auto graph = std::make_shared<Graph>(t.graph);
  Program p(graph, host.options), q(graph, host.options);
  CHECK(p.n_steps() == 1);            // only the product: no Cast remains
  CHECK(cache.bytes() == 4 * 2 * 2);  // one copy for both Programs
  for (int round = 0; round < 2; ++round) {
    const auto inputs = random_inputs(t.graph, 3);
    for (Program* program : {&p, &q}) {
      feed(*program, inputs);
      program->run();
      CHECK(equal(program->output("y"), interpret(t.graph, inputs, host.params).outputs.at("y")));
    }
    host.params[0].as_mutable<float>()[3] += 1;  // changes a parameter, as an optimizer step does
    cache.refresh();
  }
}

TEST_CASE("a cached copy of a parameter is not overwritten by its last reader") {
  const char* text = R"(
    input x fp16 2 2
    param W 2 2
    h = Cast(W) {to=2}
    y = Mul(h, x)
    output y)";
  CoreText t(text);
  Host host(t.graph);
  ParamCache cache;
  host.options.cache = &cache;
  host.options.poison = false;
  Program p(std::make_shared<Graph>(t.graph), host.options);
  const auto inputs = random_inputs(t.graph, 3);
  for (int round = 0; round < 3; ++round) {
    feed(p, inputs);
    p.run();
    CHECK(equal(p.output("y"), interpret(t.graph, inputs, host.params).outputs.at("y")));
  }
}

TEST_CASE("gradients that the graph leaves unread, inputs that nothing reads, values that are output twice") {
  CoreText t(R"(
    input x 3
    input unused 5
    param w 3
    y = Mul(x, w)
    z = Reshape(y) {dims=[1 3]}
    output y
    output z
    output x)");
  t.graph.outputs.push_back({"again", t["y"]});
  Host host(t.graph);
  Program p(std::make_shared<Graph>(t.graph), host.options);
  const auto inputs = random_inputs(t.graph, 1);
  feed(p, inputs);
  p.run();
  const Interpreted want = interpret(t.graph, inputs, host.params);
  for (const char* name : {"y", "z", "x", "again"}) CHECK(equal(p.output(name), want.outputs.at(name)));
}

TEST_CASE("a Program names what it has not") {
  CoreText t("input x 3\nparam w 3\ny = Mul(x, w)\noutput y");
  Host host(t.graph);
  Program p(std::make_shared<Graph>(t.graph), host.options);
  CHECK(p.has_input("x"));
  CHECK_FALSE(p.has_output("x"));
  CHECK_THROWS_WITH(p.input("z"), Catch::Matchers::ContainsSubstring("'z'"));
  CHECK_THROWS_WITH(p.output("x"), Catch::Matchers::ContainsSubstring("'x'"));
  CHECK_THROWS_WITH(p.set_input("x", HostTensor::zeros(DType::f32, {4})), Catch::Matchers::ContainsSubstring("[4]"));
}

TEST_CASE("every core operator has a CPU kernel") {
  for (const OpDef* op : all_core_ops()) {
    INFO(op->name);
    CHECK(find_kernel(DeviceKind::cpu, op->name) != nullptr);
    CHECK(op->infer != nullptr);
  }
}
