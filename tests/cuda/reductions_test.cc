// Normalizations, reductions, losses and random operators in the variants of their CUDA kernels that the operator
// table's small cases do not reach: split sums, rows longer than a warp handles, with and without vector loads, sorts
// and selections. Also NaN and infinities.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <limits>

#include "backend/parallel.h"
#include "tests/cuda/against_cpu.h"
#include "tests/ops/case_run.h"
#include "tests/ops/one_node.h"

using namespace amp;
using namespace amp::test;

namespace {

using Ints = std::vector<int64_t>;

void agree(const std::string& op, const OpCase& c, const std::vector<DType>& types = {DType::f32, DType::f16}) {
  const WithThreads one(1);
  DYNAMIC_SECTION(describe(op, c)) {
    size_t nodes = 0;
    for (const DType t : types) nodes += agree_with_cpu(op, c, t, 3);
    CHECK(nodes > 0);
  }
}

// Draws NaN or an infinity about once in `often` elements.
Draw strange(int64_t often) {
  return [often](int64_t n, Rng& rng) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    const double odd[] = {std::numeric_limits<double>::quiet_NaN(), inf, -inf};
    std::vector<double> v = uniform(-2, 2)(n, rng);
    for (int64_t i = 0; i < n; ++i) {
      if (static_cast<int64_t>(rng() % static_cast<uint64_t>(often)) == 0) v[static_cast<size_t>(i)] = odd[rng() % 3];
    }
    return v;
  };
}
std::vector<double> signed_zeros(int64_t n, Rng& rng) {
  std::vector<double> v(static_cast<size_t>(n));
  for (double& x : v) x = rng() % 2 ? 0.0 : -0.0;
  return v;
}
OpCase held(OpCase c) {
  for (Operand& o : c.in) o.role = o.role == Role::value ? Role::held : o.role;
  return c;
}

}  // namespace

TEST_CASE("LayerNorm of many rows, and of rows that fit a warp's registers, a block's, or neither", "[cuda]") {
  const int64_t rms = GENERATE(0, 1);
  for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{3000, 130},
                                {3000, 132},
                                {400, 384},
                                {700, 768},
                                {5, 1024},
                                {9, 1028},
                                {5, 2050},
                                {6, 4096},
                                {3, 9000}}) {
    OpCase c{{{{rows, n}, uniform(9, 11)}, {{n}, uniform(0.5, 1.5)}, {{n}}},
             {{"n", n}, {"epsilon", 1e-5}, {"rms", rms}}};
    if (rms) c.in.pop_back();
    agree("LayerNorm", c);
  }
}

TEST_CASE("reductions of many rows and of long ones", "[cuda]") {
  const char* const op = GENERATE("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd");
  const bool product = std::string(op) == "ReduceProd";
  const Draw x = product ? uniform(0.999, 1.001) : uniform(-2, 2);
  struct Shape {
    Dims dims;
    Ints axes;
  };
  for (const Shape& s : std::vector<Shape>{{{4000, 260}, {0}},
                                           {{4000, 70}, {0}},
                                           {{5000, 3}, {0}},
                                           {{5000, 8}, {0}},
                                           {{70000}, {0}},
                                           {{20001}, {0}},
                                           {{3, 20004}, {1}},
                                           {{2, 3000, 3}, {1}},
                                           {{60, 20, 40}, {1}},
                                           {{3, 1030}, {1}},
                                           {{500, 300}, {1}},
                                           {{500, 303}, {1}},
                                           {{9, 65536, 4}, {0}},
                                           {{40, 12, 12}, {0}}}) {
    agree(op, held({{{s.dims, x}}, {{"axes", s.axes}, {"keepdims", int64_t{1}}}}));
    if (product || numel(s.dims) > 100000) continue;
    agree(op, held({{{s.dims, strange(numel(s.dims) / 3)}}, {{"axes", s.axes}, {"keepdims", int64_t{0}}}}),
          {DType::f32, DType::bf16});
    agree(op, {{{s.dims, integers(-50, 50), Role::integer}}, {{"axes", s.axes}, {"keepdims", int64_t{0}}}},
          {DType::f32});
  }
}

TEST_CASE("the extreme of long rows, of rows with NaN or infinity, and of many rows", "[cuda]") {
  const char* const op = GENERATE("ArgMax", "ArgMin");
  for (const int64_t last : {0, 1}) {
    const auto along = [&](Dims d, int64_t axis, const Draw& x, Role role = Role::held) {
      agree(op, {{{std::move(d), x, role}}, {{"axis", axis}, {"keepdims", int64_t{0}}, {"select_last_index", last}}});
    };
    along({5, 3000}, 1, uniform(-2, 2));
    along({3, 700, 5}, 1, lattice(0.5));
    along({20, 6, 1000}, 1, lattice(1));
    along({300, 9}, 1, strange(3));
    along({9, 600, 40}, 1, strange(3));
    along({20, 5, 1000}, 1, strange(3));
    along({7, 2000}, 1, integers(-500, 500), Role::integer);
  }
}

TEST_CASE("running sums of long and of many lines", "[cuda]") {
  for (const int64_t flags : {0, 1, 2, 3}) {
    const auto along = [&](Dims d, int64_t axis, Operand x = {}) {
      x.dims = std::move(d);
      agree("CumSum", {{x}, {{"axis", axis}, {"exclusive", flags & 1}, {"reverse", flags >> 1}}});
    };
    along({3, 5000}, 1);
    along({2, 70, 40}, 1);
    along({20, 5, 1000}, 1);
    along({5, 100}, 1, {{}, strange(90), Role::held});
    along({3, 2000}, 1, {{}, integers(-9, 9), Role::integer});
  }
}

TEST_CASE("TopK of long lines, with ties, NaN and infinities", "[cuda]") {
  for (const int64_t largest : {0, 1}) {
    const auto top = [&](Dims d, int64_t axis, int64_t k, const Draw& x, Role role = Role::held) {
      agree("TopK", {{{std::move(d), x, role}}, {{"axis", axis}, {"k", k}, {"largest", largest}}});
    };
    top({6, 5000}, 1, 7, uniform(-2, 2));
    top({3, 4096}, 1, 50, lattice(0.25));
    top({70, 33}, 1, 33, strange(3));
    top({4, 100, 3}, 1, 100, lattice(0.5));
    top({5, 40}, 1, 2, strange(2));
    top({3, 40}, 1, 7, signed_zeros);
    top({2, 4500}, 1, 5, strange(100));
    top({5, 300}, 1, 20, integers(-40, 40), Role::integer);
  }
}

TEST_CASE("batch statistics of many images, of large ones and of vectors", "[cuda]") {
  for (const Dims& d : {Dims{8, 3, 64, 64}, Dims{3000, 70}, Dims{40, 5, 7, 9}, Dims{16, 3, 33, 33}, Dims{70, 6, 2}}) {
    const Dims c{d[1]};
    agree("BatchNormTrain", {{{d, uniform(9, 11)}, {c, uniform(0.5, 1.5)}, {c}}, {{"epsilon", 1e-4}}});
    agree("BatchNorm", {{{d, uniform(9, 11)},
                         {c, uniform(0.5, 1.5)},
                         {c},
                         {c, uniform(9, 11), Role::held},
                         {c, uniform(0.5, 1.5), Role::held}},
                        {{"epsilon", 1e-4}}});
  }
}

TEST_CASE("cross-entropy of many classes and of many rows", "[cuda]") {
  for (const auto& [rows, classes] : {std::pair<int64_t, int64_t>{3000, 130}, {40, 3001}, {33, 5000}, {4000, 4}}) {
    const Operand labels{{rows}, integers(-1, classes - 1), Role::integer};
    agree("CrossEntropy", {{{{rows, classes}, uniform(-30, 30)}, labels}, {{"ignore_index", int64_t{-1}}}});
    agree("CrossEntropy", {{{{rows, classes}, strange(rows * classes / 2)}, labels}, {{"ignore_index", int64_t{-1}}}},
          {DType::f32});
  }
}

TEST_CASE("softmax of rows that fit a warp's registers, a block's, or neither", "[cuda]") {
  const char* const op = GENERATE("Softmax", "LogSoftmax");
  for (const auto& [rows, n] :
       {std::pair<int64_t, int64_t>{300, 128}, {300, 131}, {50, 512}, {9, 1000}, {5, 3000}, {3, 9000}}) {
    agree(op, {{{{rows, n}, uniform(-30, 30)}}, {}});
    agree(op, {{{{rows, n}, strange(2 * n)}}, {}}, {DType::f32});
  }
}

TEST_CASE("Dropout draws the CPU's bits", "[cuda]") {
  for (const auto& [dims, rows] :
       {std::pair<Dims, int64_t>{{6, 1000}, 6}, {{6, 7, 11}, 6}, {{6, 7, 11}, 4}, {{64, 3, 3}, 2}, {{1, 3}, 1}}) {
    agree("Dropout", {{{dims}}, {{"ratio", 0.3}, {"site", int64_t{7}}, {"rows", rows}}},
          {DType::f32, DType::f16, DType::bf16});
  }
}

TEST_CASE("long sums are split over the device, short ones are not", "[cuda]") {
  const auto launches = [](const char* op, const OpCase& c) {
    const CaseRun run(op, c, DType::f32, false);
    const Node& node = run.graph().node(NodeId{0});
    std::vector<HostTensor> in = draw_inputs(c, 5);
    for (HostTensor& t : in) t = t.cast(DType::f32);
    device().events().clear();
    device().keep_events(true);
    run_on_device(run.graph(), node, in);
    device().keep_events(false);
    std::vector<int64_t> blocks;
    for (const cuda::Event& e : device().events()) {
      if (e.kind == cuda::Event::launch) blocks.push_back(e.blocks);
    }
    return blocks;
  };
  const auto sum = [&](Dims d, int64_t axis) {
    return launches("ReduceSum", {{{std::move(d)}}, {{"axes", Ints{axis}}, {"keepdims", int64_t{1}}}});
  };
  // A block of 128 threads sums tiles of 16 rows and 128 columns.
  CHECK(sum({4096, 768}, 0) == std::vector<int64_t>{256});  // 256 * 6 tiles for the emulated device's 4 * 64 blocks
  CHECK(sum({64, 2048}, 0) == std::vector<int64_t>{16});
  CHECK(sum({64, 768}, 0) == std::vector<int64_t>{24});  // 4 * 6 tiles
  CHECK(sum({100, 768}, 1) == std::vector<int64_t>{25});
  CHECK(sum({100, 4096}, 1) == std::vector<int64_t>{100});
  const std::vector<int64_t> one_row = sum({1, 400000}, 1);
  CHECK(one_row.size() == 1);
  CHECK(one_row[0] > 1);
}

TEST_CASE("random operators follow seed, step and samples on the device", "[cuda]") {
  const OpCase c{{{{12, 30}}}, {{"ratio", 0.5}, {"site", int64_t{7}}, {"rows", int64_t{12}}}};
  const CaseRun run("Dropout", c, DType::f32, false);
  const Node& node = run.graph().node(NodeId{0});
  const HostTensor x = random_tensor({12, 30}, 5).cast(DType::f32);
  std::vector<HostTensor> seen;
  for (const RunState& state :
       {RunState{}, RunState{1, 0, 0}, RunState{uint64_t{1} << 40, 0, 0}, RunState{0, 3, 0}, RunState{0, 0, 12}}) {
    HostTensor want = HostTensor::zeros(DType::f32, x.dims()), from = x;
    KernelArgs a{node,
                 {{from.mutable_data(), DType::f32, x.dims()}},
                 {{want.mutable_data(), DType::f32, x.dims()}},
                 nullptr,
                 &state};
    find_kernel(DeviceKind::cpu, "Dropout")(a)();
    const HostTensor got = run_on_device(run.graph(), node, {x}, state).at(0);
    CHECK(same_bits(got, want));
    for (const HostTensor& before : seen) CHECK_FALSE(same_bits(got, before));
    seen.push_back(got);
  }
}

TEST_CASE("a label out of range makes the loss NaN", "[cuda]") {
  const OpCase c{{{{3, 4}}, {{3}, integers(0, 3), Role::integer}}, {{"ignore_index", int64_t{-1}}}};
  const CaseRun run("CrossEntropy", c, DType::f32, true);
  const HostTensor x = random_tensor({3, 4}, 5).cast(DType::f32), labels = HostTensor::of<int64_t>({3}, {1, 4, -1});
  CHECK(std::isnan(run_on_device(run.graph(), run.graph().node(NodeId{0}), {x, labels}).at(0).to_doubles().at(0)));
  const Node& grad = run.graph().node(NodeId{1});
  REQUIRE(grad.op->name == "CrossEntropyGrad");
  const std::vector<double> dx =
      run_on_device(run.graph(), grad, {x, labels, HostTensor::scalar<float>(1)}).at(0).to_doubles();
  for (size_t i = 0; i < 12; ++i) CHECK(std::isnan(dx[i]) == (i / 4 == 1));
}
