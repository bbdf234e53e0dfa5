// The guard that stands before a library of recurrent layers: which nodes are offered to it, the order of gates, and
// that it runs alone only when both directions have agreed with the project's kernels.
#include "backend/cuda/recurrence.h"

#include <catch2/catch_all.hpp>
#include <iostream>
#include <sstream>

#include "tests/cuda/on_device.h"

using namespace amp;
using namespace amp::test;
using namespace amp::cuda;

namespace {

constexpr int64_t T = 4, B = 3, H = 5;

// A library that is the CPU's kernels, with faults to order. As a real one it keeps what its backward reads.
struct FakeLayers final : LibraryRecurrence {
  const char* op;
  Attrs attrs;
  int64_t gates;
  bool cell, reset_bias;
  double forward_error = 0, backward_error = 0;
  bool waits = true, refuses = false;
  int forwards = 0, backwards = 0;
  std::vector<HostTensor> in, saved;

  std::string name() const override { return "a library"; }
  bool may_wait() const override { return waits; }
  static HostTensor host(const void* p, const Dims& d) {
    if (!p) return {};
    const auto* const f = static_cast<const float*>(p);
    return HostTensor::of<float>(d, std::vector<float>(f, f + numel(d)));
  }
  static void give(void* to, const HostTensor& from, double error) {
    const std::vector<double> v = from.to_doubles();
    for (size_t i = 0; i < v.size(); ++i) static_cast<float*>(to)[i] = static_cast<float>(v[i] + error);
  }
  bool forward(const RecurrenceOperands& o) override {
    ++forwards;
    if (refuses) return false;
    in = {host(o.xg, {T, B, gates * H}), host(o.R, {gates * H, H}), host(o.h0, {B, H})};
    if (cell) in.push_back(host(o.c0, {B, H}));
    in.emplace_back();  // lengths
    if (reset_bias) in.push_back(host(o.rb, {H}));
    saved = on_cpu(op, in, attrs);
    give(o.y, saved[0], forward_error);
    give(o.h, saved[1], forward_error);
    if (cell) give(o.c, saved[2], forward_error);
    return true;
  }
  bool backward(const RecurrenceOperands& o) override {
    ++backwards;
    if (saved.empty()) return false;  // read already
    std::vector<HostTensor> b(in.begin() + 1, in.end());
    if (cell) b.emplace_back();  // peepholes
    if (std::string(op) == "GRU" && !reset_bias) b.emplace_back();
    for (size_t i = cell ? 3 : 2; i < saved.size(); ++i) b.push_back(saved[i].cast(DType::f32));
    b.push_back(saved[0].cast(DType::f32));
    b.push_back(host(o.dy, {T, B, H}));
    b.push_back(host(o.dh, {B, H}));
    if (cell) b.push_back(host(o.dc, {B, H}));
    const std::vector<HostTensor> g = on_cpu((std::string(op) + "Grad").c_str(), b, attrs);
    give(o.dxg, g[0], backward_error);
    give(o.dR, g[1], backward_error);
    give(o.dh0, g[2], backward_error);
    if (cell) give(o.dc0, g[3], backward_error);
    if (reset_bias) give(o.drb, g[3], backward_error);
    saved.clear();
    return true;
  }
};

Attrs attrs_of(std::vector<int64_t> kinds, int64_t reverse = 0) {
  const std::vector<double> zero(kinds.size(), 0.0);
  return {{"reverse", reverse}, {"activation", std::move(kinds)}, {"alpha", zero}, {"beta", zero}};
}

// A layer and its gradient on one device, as a training program has them: they share y's address.
struct Layer {
  std::unique_ptr<EmulatedDevice> device = make_emulated_device();
  std::shared_ptr<FakeLayers> fake = std::make_shared<FakeLayers>();
  std::vector<Recurrence> asked;
  std::ostringstream warnings;
  std::string op;
  Attrs attrs;
  std::vector<HostTensor> in, grads, want, want_grads;

  Layer(const std::string& name, int64_t gates, std::vector<int64_t> kinds, bool reset_bias)
      : op(name), attrs(attrs_of(std::move(kinds))) {
    const bool cell = op == "LSTM";
    fake->op = op.c_str();
    fake->attrs = attrs;
    fake->gates = gates;
    fake->cell = cell;
    fake->reset_bias = reset_bias;
    device->recurrence_library = [this](const Recurrence& r) {
      asked.push_back(r);
      return fake;
    };
    const HostTensor none;
    in = {draw({T, B, gates * H}, 1), draw({gates * H, H}, 2), draw({B, H}, 3)};
    if (cell) in.push_back(draw({B, H}, 4));
    in.push_back(none);
    if (reset_bias) in.push_back(draw({H}, 5));
    want = on_cpu(op.c_str(), in, attrs);
    grads.assign(in.begin() + 1, in.end());
    if (cell || (op == "GRU" && !reset_bias)) grads.push_back(none);
    for (size_t i = cell ? 3 : 2; i < want.size(); ++i) grads.push_back(want[i].cast(DType::f32));
    grads.push_back(want[0].cast(DType::f32));
    grads.push_back(draw({T, B, H}, 6));
    grads.push_back(draw({B, H}, 7));
    if (cell) grads.push_back(draw({B, H}, 8));
    want_grads = on_cpu((op + "Grad").c_str(), grads, attrs);
  }
  size_t y_of_gradient() const { return op == "LSTM" ? 7 : op == "GRU" ? 6 : 3; }

  std::vector<HostTensor> run(OnDevice& n, const std::vector<HostTensor>& with) {
    std::streambuf* const before = std::cerr.rdbuf(warnings.rdbuf());
    std::vector<HostTensor> out = n.run(with);
    std::cerr.rdbuf(before);
    return out;
  }
  // Prepares the gradient's node so that it finds the layer at the address of its own copy of y.
  OnDevice gradient() {
    const std::shared_ptr<void> layer = device->partners.begin()->second.lock();
    REQUIRE(layer);
    return OnDevice(*device, (op + "Grad").c_str(), grads, attrs, DType::f32,
                    [&](const std::vector<Tensor>& placed) { device->partners[placed[y_of_gradient()].data] = layer; });
  }
  OnDevice layer() { return OnDevice(*device, op.c_str(), in, attrs, DType::f32); }
};

size_t results_of(const std::string& op) { return op == "LSTM" ? 3 : 2; }

}  // namespace

TEST_CASE("a library of recurrent layers runs alone once both directions have agreed", "[cuda]") {
  struct Case {
    const char* op;
    int64_t gates;
    std::vector<int64_t> kinds;
    bool reset_bias;
    RecurrentCell cell;
  };
  for (const Case& c :
       {Case{"LSTM", 4, {0, 1, 1}, false, RecurrentCell::lstm}, Case{"GRU", 3, {0, 1}, true, RecurrentCell::gru},
        Case{"RNN", 1, {1}, false, RecurrentCell::rnn_tanh}, Case{"RNN", 1, {2}, false, RecurrentCell::rnn_relu}}) {
    INFO(c.op << ' ' << c.kinds[0]);
    Layer l(c.op, c.gates, c.kinds, c.reset_bias);
    OnDevice node = l.layer();
    REQUIRE(l.asked.size() == 1);
    CHECK(l.asked[0] == Recurrence{c.cell, T, B, H, DType::f32});
    OnDevice gradient = l.gradient();
    const auto check_results = [&](bool right) {
      const std::vector<HostTensor> y = l.run(node, l.in), g = l.run(gradient, l.grads);
      for (size_t i = 0; i < results_of(l.op); ++i) CHECK((worst(y[i], l.want[i]) < 1e-5) == right);
      for (size_t i = 0; i < 3; ++i) CHECK((worst(g[i], l.want_grads[i]) < 1e-5) == right);
    };
    check_results(true);
    CHECK(l.fake->forwards == 1);
    CHECK(l.fake->backwards == 1);
    l.fake->forward_error = l.fake->backward_error = 0.5;  // to see whose results they are
    check_results(false);
    CHECK(l.fake->forwards == 2);
    CHECK(l.fake->backwards == 2);
    CHECK(l.warnings.str().empty());
  }
}

TEST_CASE("a library of recurrent layers that differs in one direction is dropped in both", "[cuda]") {
  for (const bool forward : {true, false}) {
    Layer l("LSTM", 4, {0, 1, 1}, false);
    (forward ? l.fake->forward_error : l.fake->backward_error) = 0.5;
    OnDevice node = l.layer();
    OnDevice gradient = l.gradient();
    for (int i = 0; i < 3; ++i) {
      const std::vector<HostTensor> y = l.run(node, l.in), g = l.run(gradient, l.grads);
      for (size_t k = 0; k < 3; ++k) CHECK(worst(y[k], l.want[k]) < 1e-5);
      for (size_t k = 0; k < 4; ++k) CHECK(worst(g[k], l.want_grads[k]) < 1e-5);
    }
    CHECK(l.fake->backwards == (forward ? 0 : 1));
    CHECK(l.warnings.str().find("W_LIBRARY: a library is off by ") != std::string::npos);
    CHECK((l.warnings.str().find("(gradient)") != std::string::npos) == !forward);
  }
}

TEST_CASE("a library of recurrent layers proves nothing on zeros or in a recording, and may refuse", "[cuda]") {
  Layer l("LSTM", 4, {0, 1, 1}, false);
  l.fake->waits = false;
  OnDevice node = l.layer();
  l.run(node, l.in);
  CHECK(l.fake->forwards == 0);
  l.fake->waits = true;
  std::vector<HostTensor> zeros;
  for (const HostTensor& t : l.in) zeros.push_back(t ? HostTensor::zeros(t.dtype(), t.dims()) : t);
  l.run(node, zeros);
  CHECK(l.fake->forwards == 1);
  CHECK(l.device->unvalidated() == 1);
  CHECK(worst(l.run(node, l.in)[0], l.want[0]) < 1e-5);
  CHECK(l.fake->forwards == 2);
  l.fake->refuses = true;
  CHECK(worst(l.run(node, l.in)[0], l.want[0]) < 1e-5);
  CHECK(l.warnings.str().find("refuses to run") != std::string::npos);
}

TEST_CASE("only layers that a library computes exactly are offered to it", "[cuda]") {
  const HostTensor none, lens = HostTensor::of<int64_t>({B}, std::vector<int64_t>{4, 2, 1});
  const HostTensor x = draw({T, B, 4 * H}, 1), R = draw({4 * H, H}, 2), s = draw({B, H}, 3), P = draw({3 * H}, 4);
  const auto device = make_emulated_device();
  int asked = 0;
  device->recurrence_library = [&](const Recurrence&) {
    ++asked;
    return nullptr;
  };
  const auto offer = [&](const char* op, const std::vector<HostTensor>& in, const Attrs& attrs) {
    const int before = asked;
    OnDevice(*device, op, in, attrs, DType::f32);
    return asked > before;
  };
  const HostTensor x3 = draw({T, B, 3 * H}, 1), R3 = draw({3 * H, H}, 2), rb = draw({H}, 5);
  CHECK(offer("LSTM", {x, R, s, s}, attrs_of({0, 1, 1})));
  CHECK_FALSE(offer("LSTM", {x, R, s, s}, attrs_of({0, 1, 1}, 1)));
  CHECK_FALSE(offer("LSTM", {x, R, s, s}, attrs_of({0, 1, 2})));
  CHECK_FALSE(offer("LSTM", {x, R, s, s}, attrs_of({3, 1, 1})));
  CHECK_FALSE(offer("LSTM", {x, R, s, s, lens}, attrs_of({0, 1, 1})));
  CHECK_FALSE(offer("LSTM", {x, R, s, s, none, P}, attrs_of({0, 1, 1})));
  CHECK(offer("GRU", {x3, R3, s, none, rb}, attrs_of({0, 1})));
  CHECK_FALSE(offer("GRU", {x3, R3, s}, attrs_of({0, 1})));  // reset before
  CHECK_FALSE(offer("RNN", {draw({T, B, H}, 1), draw({H, H}, 2), s}, attrs_of({0})));
}

TEST_CASE("a library's gates are found in ONNX's order", "[cuda]") {
  // i f n o among i o f n; r z n among z r n
  CHECK(library_gates(RecurrentCell::lstm) == std::vector<int>{0, 2, 3, 1});
  CHECK(library_gates(RecurrentCell::gru) == std::vector<int>{1, 0, 2});
  CHECK(library_gates(RecurrentCell::rnn_tanh) == std::vector<int>{0});
}
