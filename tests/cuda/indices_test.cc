// Indices and labels out of range on a device whose kernels cannot report errors: the errors equal the CPU's.
#include <catch2/catch_all.hpp>

#include "backend/interpreter.h"
#include "backend/program.h"
#include "base/error.h"
#include "graph/builder.h"
#include "tests/cuda/gpu.h"
#include "tests/emulator/emulated_device.h"
#include "tests/support.h"
#include "tests/zoo/golden.h"

using namespace amp;
using namespace amp::test;

namespace {

// Returns a graph that gathers rows of x, shape (4, 2), by three ids, each increased by one.
std::shared_ptr<Graph> shifted_gather() {
  auto g = std::make_shared<Graph>();
  Builder b(*g, cpu_evaluator());
  const ValueId ids = g->add_input("ids", DType::i64, {3}), x = g->add_input("x", DType::f32, {4, 2});
  const ValueId row = b.op("Add", {ids, b.scalar(1, DType::i64)});
  const Attrs attrs{
      {"outer", int64_t{1}}, {"n", int64_t{4}}, {"inner", int64_t{2}}, {"dims", std::vector<int64_t>{3, 2}}};
  g->outputs.push_back({"y", b.op("GatherRows", {x, row}, attrs)});
  return g;
}

HostTensor ints(std::vector<int64_t> v) {
  return HostTensor::of<int64_t>({static_cast<int64_t>(v.size())}, std::move(v));
}

struct Caught {
  std::string id, fact;
  Exit exit = Exit::internal;
};
template <class F>
Caught caught(F f) {
  try {
    f();
  } catch (const Error& e) {
    return {e.id(), e.fact(), e.exit()};
  }
  return {};
}

}  // namespace

TEST_CASE("a computed index out of range ends the run when something is read", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  const auto arena = device->make_arena();
  const RunState state;
  ProgramOptions o;
  o.device = device.get();
  o.arena = arena.get();
  o.state = &state;
  Program p(shifted_gather(), o);
  p.set_input("x", HostTensor::of<float>({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7}));
  const auto with = [&](std::vector<int64_t> ids) {
    p.set_input("ids", ints(std::move(ids)));
    p.run();
    return p.read("y").to_doubles();
  };
  const std::vector<double> right{2, 3, 6, 7, 6, 7};
  CHECK(with({0, 2, -2}) == right);
  for (const auto& [bad, text] : {std::pair{int64_t{3}, "index 4 of GatherRows is outside a table of 4 rows"},
                                  std::pair{int64_t{-6}, "index -5 of GatherRows is outside a table of 4 rows"},
                                  std::pair{int64_t{1} << 60, "index 140737488355327 of GatherRows"}}) {
    const Caught e = caught([&] { with({0, bad, 1}); });
    CHECK(e.exit == Exit::data);
    CHECK(e.id == "E_DATA_TOKEN_RANGE");
    CHECK_THAT(e.fact, Catch::Matchers::StartsWith(text));
    CHECK(with({0, 2, -2}) == right);  // an error is reported only once
  }
}

TEST_CASE("a step's report contains an index out of range, and the host does not wait for it", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  const DeviceMemory p = device->allocate(64), g = device->allocate(64), indices = device->allocate(16);
  UpdateSpec spec;
  spec.params = static_cast<float*>(p.get());
  spec.grads = static_cast<float*>(g.get());
  spec.elements = 16;
  spec.spans = {{0, 16, true, 1, 0}};
  spec.lr = [](int64_t) { return 0.1; };
  const std::unique_ptr<DeviceUpdate> update = device->make_update(spec);
  const Kernel check = device->check_indices({indices.get(), DType::i64, {2}}, index_into(7), "of Gather");
  const auto step = [&](std::vector<int64_t> v) {
    device->upload(indices.get(), v.data(), 16);
    update->begin({1});
    check();
    update->apply();
  };
  device->keep_events(true);
  step({0, -7});
  step({7, 0});
  for (const cuda::Event& e : device->events()) CHECK(e.kind != cuda::Event::download);
  CHECK(update->take(false));
  const Caught e = caught([&] { update->take(false); });
  CHECK(e.id == "E_DATA_TOKEN_RANGE");
  CHECK(e.fact == "index 7 of Gather is outside a table of 7 rows");
}

TEST_CASE("a label out of range is refused before it is copied to the device", "[cuda]") {
  Golden g(test_data() + "/zoo/lenet_relu_dyn18");
  HostTensor& label = g.batch.at("label");
  const HostTensor good = label;
  const auto emulated = cuda::make_emulated_device();
  for (Device* device : {static_cast<Device*>(emulated.get()), &cpu_device()}) {
    SessionOptions o;
    o.device = device;
    Session session(g.model.graph, o);
    for (const int64_t bad : {int64_t{10}, int64_t{-1}, int64_t{1} << 40}) {
      std::vector<int64_t> v = good.to_ints();
      v.back() = bad;
      label = HostTensor::of<int64_t>(good.dims(), v);
      const Caught e = caught([&] { run_gradients(session, g); });
      CHECK(e.exit == Exit::data);
      CHECK(e.id == "E_DATA_LABEL");
      CHECK_THAT(e.fact,
                 Catch::Matchers::StartsWith(cat("label ", bad)) && Catch::Matchers::EndsWith("is outside 0..9"));
    }
    std::vector<int64_t> v = good.to_ints();
    v.back() = -100;  // the index of ignored labels
    label = HostTensor::of<int64_t>(good.dims(), v);
    run_gradients(session, g);
    label = good;
  }
}
