// Kernels that move data, beyond the cases of the operator table: every element size, squares of all sizes, hundreds of
// rows with the same index, indices out of range.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <numeric>
#include <random>

#include "backend/cuda/divide.cuh"
#include "backend/cuda/emulator.h"
#include "backend/cuda/ref.cuh"
#include "backend/cuda/sort.cuh"
#include "backend/interpreter.h"
#include "tests/cuda/guarded.h"
#include "tests/emulator/emulated_device.h"
#include "tests/errors.h"
#include "tests/ops/one_node.h"

using namespace amp;
using amp::test::Guarded;

namespace {

using Ints = std::vector<int64_t>;
using Outputs = std::vector<std::pair<DType, Dims>>;

cuda::EmulatedDevice& device() {
  static const std::unique_ptr<cuda::EmulatedDevice> d = cuda::make_emulated_device();
  return *d;
}

std::vector<HostTensor> in_order(const std::string& op, const std::vector<HostTensor>& in, const Attrs& attrs,
                                 const Outputs& outputs) {
  Graph g;
  std::vector<ValueId> values;
  for (const HostTensor& t : in) values.push_back(g.add_constant(t));
  const Node& node = g.node(g.add_node(core_op(op), values, attrs, {}));
  KernelArgs a{node, {}, {}, nullptr, nullptr, &device()};
  std::vector<Guarded> memory;
  for (const HostTensor& t : in) {
    memory.emplace_back(t.dtype(), t.dims());
    device().upload(memory.back().tensor.data, t.data(), t.bytes());
    a.in.push_back(memory.back().tensor);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    g.set_dtype(node.out[i], outputs[i].first);
    memory.emplace_back(outputs[i].first, outputs[i].second);
    a.out.push_back(memory.back().tensor);
  }
  const Guarded scratch(DType::u8, {device().workspace(g, node)});
  a.workspace = scratch.tensor.data;
  find_kernel(DeviceKind::cuda, op)(a)();
  scratch.read();
  std::vector<HostTensor> out;
  for (size_t i = in.size(); i < memory.size(); ++i) out.push_back(memory[i].read());
  return out;
}

// Runs a node twice, the second time with threads in reverse order, and checks that the bits are equal.
std::vector<HostTensor> on_device(const std::string& op, const std::vector<HostTensor>& in, const Attrs& attrs,
                                  const Outputs& outputs) {
  const std::vector<HostTensor> out = in_order(op, in, attrs, outputs);
  cuda::emulator::reversed(true);
  const std::vector<HostTensor> again = in_order(op, in, attrs, outputs);
  cuda::emulator::reversed(false);
  for (size_t i = 0; i < out.size(); ++i) CHECK(same_bits(out[i], again[i]));
  return out;
}

// Checks that the device's result has the CPU's bytes.
void check_same(const std::string& op, const std::vector<HostTensor>& in, const Attrs& attrs, const Outputs& outputs) {
  const std::vector<HostTensor> want = evaluate_node(core_op(op), in, attrs, outputs),
                                got = on_device(op, in, attrs, outputs);
  for (size_t i = 0; i < want.size(); ++i) {
    INFO(op << " of " << name_of(in[0].dtype()) << to_string(in[0].dims()) << " to " << to_string(want[i].dims()));
    CHECK(same_bits(got[i], want[i]));
  }
}

HostTensor any_of(DType type, const Dims& dims, std::mt19937_64& rng) {
  HostTensor t = HostTensor::empty(type, dims);
  auto* p = static_cast<unsigned char*>(t.mutable_data());
  for (int64_t i = 0; i < t.bytes(); ++i) p[i] = static_cast<unsigned char>(type == DType::boolean ? rng() % 2 : rng());
  return t;
}
HostTensor ints(const Dims& dims, int64_t lo, int64_t hi, DType type, std::mt19937_64& rng) {
  Ints v(static_cast<size_t>(numel(dims)));
  for (int64_t& x : v) x = lo + static_cast<int64_t>(rng() % static_cast<uint64_t>(hi - lo + 1));
  return HostTensor::of<int64_t>(dims, v).cast(type);
}

const DType kSizes[] = {DType::u8,  DType::boolean, DType::f16, DType::bf16,
                        DType::i32, DType::f32,     DType::i64, DType::f64};

}  // namespace

TEST_CASE("a divisor divides", "[cuda]") {
  std::mt19937_64 rng(5);
  Ints numbers{1,   2,     3,     5,     7,          31,         32,           33,           255,
               641, 65535, 65536, 65537, 0x7ffffffe, 0x7fffffff, 0x80000000ll, 0xffffffffll, int64_t{1} << 40};
  for (int i = 0; i < 200; ++i) numbers.push_back(1 + static_cast<int64_t>(rng() >> (24 + i % 39)));
  int64_t wrong = 0;
  for (const int64_t d : numbers) {
    const cuda::Divisor by(d);
    for (const int64_t n : numbers) {
      for (const int64_t m : {n, n - 1, n / d * d, n / d * d + d - 1, int64_t{0}}) wrong += by(m) != m / d;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("sorting keeps equal keys in order", "[cuda]") {
  std::mt19937_64 rng(6);
  struct Key {
    const int64_t* keys;
    int64_t operator()(int64_t i) const { return keys[i]; }
  };
  for (const int64_t n : {1, 2, 255, 256, 257, 512, 1000, 5000}) {
    for (const int64_t most : {int64_t{0}, int64_t{3}, int64_t{100000}, int64_t{0xffffffff}}) {
      Ints keys(static_cast<size_t>(n)), order(keys.size());
      for (int64_t& k : keys) k = static_cast<int64_t>(rng() % static_cast<uint64_t>(most + 1));
      std::iota(order.begin(), order.end(), int64_t{0});
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
        return keys[static_cast<size_t>(i)] < keys[static_cast<size_t>(j)];
      });
      Guarded memory(DType::u8, {n * 16 + 128});
      Carver carver(memory.tensor.data);
      const cuda::Sorted sorted = cuda::prepare_sort(&device(), carver, n, Key{keys.data()});
      sorted.sort();
      bool same = true;
      for (int64_t i = 0; i < n; ++i) same = same && cuda::place_of(sorted.words[i]) == order[static_cast<size_t>(i)];
      INFO(n << " keys up to " << most);
      CHECK(same);
      memory.read();
    }
  }
}

TEST_CASE("transposes of every element size and shape", "[cuda]") {
  std::mt19937_64 rng(7);
  const std::vector<std::pair<Dims, Ints>> cases = {{{1, 1}, {1, 0}},
                                                    {{11, 12}, {1, 0}},
                                                    {{12, 12}, {1, 0}},
                                                    {{64, 64}, {1, 0}},
                                                    {{65, 129}, {1, 0}},
                                                    {{200, 3}, {1, 0}},
                                                    {{3, 200}, {1, 0}},
                                                    {{2, 33, 5, 31}, {0, 3, 2, 1}},
                                                    {{3, 16, 4, 8}, {0, 2, 1, 3}},
                                                    {{3, 40, 2, 35}, {2, 1, 3, 0}},
                                                    {{2, 3, 20, 24}, {0, 2, 3, 1}},
                                                    {{2, 20, 24, 3}, {0, 3, 1, 2}},
                                                    {{4, 5, 3, 2, 3, 13}, {5, 1, 3, 0, 2, 4}},
                                                    {{7, 6, 5}, {2, 1, 0}},
                                                    {{2, 70, 1, 66}, {3, 2, 0, 1}}};
  for (const DType type : kSizes) {
    for (const auto& [dims, perm] : cases) {
      Dims out;
      for (const int64_t p : perm) out.push_back(dims[static_cast<size_t>(p)]);
      check_same("Transpose", {any_of(type, dims, rng)}, {{"perm", perm}}, {{type, out}});
    }
  }
}

TEST_CASE("slices and joints of every element size", "[cuda]") {
  std::mt19937_64 rng(8);
  for (const DType type : kSizes) {
    for (const int64_t first : {0, 1, 2, 4, 8}) {
      for (const int64_t n : {16, 24, 28, 30, 31}) {
        const Attrs part{
            {"starts", Ints{1, first}}, {"steps", Ints{2, 1}}, {"dims", Ints{3, n}}, {"full", Ints{7, 40}}};
        check_same("Slice", {any_of(type, {7, 40}, rng)}, part, {{type, {3, n}}});
        check_same("SliceGrad", {any_of(type, {3, n}, rng)}, part, {{type, {7, 40}}});
        const Attrs cut{{"axis", int64_t{1}}, {"sizes", Ints{first, n}}};
        check_same("Split", {any_of(type, {3, first + n, 2}, rng)}, cut, {{type, {3, first, 2}}, {type, {3, n, 2}}});
        check_same("Concat", {any_of(type, {3, first, 2}, rng), any_of(type, {3, n, 2}, rng)}, {{"axis", int64_t{1}}},
                   {{type, {3, first + n, 2}}});
        check_same("Expand", {any_of(type, {1, n}, rng)}, {{"dims", Ints{5, n}}}, {{type, {5, n}}});
      }
    }
  }
}

TEST_CASE("gathers of every element size and between types", "[cuda]") {
  std::mt19937_64 rng(9);
  for (const DType index : {DType::i64, DType::i32}) {
    const HostTensor idx = ints({3, 4}, -6, 5, index, rng);
    for (const DType type : kSizes) {
      for (const int64_t inner : {1, 2, 3, 4, 8, 16, 20}) {
        const Attrs a{{"outer", int64_t{2}}, {"n", int64_t{6}}, {"inner", inner}, {"dims", Ints{2, 3, 4, inner}}};
        check_same("GatherRows", {any_of(type, {2, 6, inner}, rng), idx}, a, {{type, {2, 3, 4, inner}}});
        if (!is_float(type)) continue;
        const HostTensor x = random_tensor({2, 6, inner}, 3).cast(type);
        for (const DType to : {DType::f32, DType::f16, DType::bf16})
          check_same("GatherRows", {x, idx}, a, {{to, {2, 3, 4, inner}}});
      }
      check_same("GatherElements", {any_of(type, {5, 6}, rng), idx}, {{"axis", int64_t{1}}}, {{type, {3, 4}}});
    }
  }
}

namespace {

// Scatters k rows of `inner` elements to n places. The elements are multiples of 1/2 whose sums are exact in fp32, so
// the order of additions does not matter.
void check_rows(int64_t outer, int64_t k, int64_t n, int64_t inner, std::mt19937_64& rng) {
  INFO(outer << " times " << k << " rows of " << inner << " among " << n);
  const HostTensor dy = ints({outer, k, inner}, -8, 8, DType::f32, rng);
  const Dims dims{outer, n, inner};
  Ints at = ints({k}, -n, n - 1, DType::i64, rng).to_ints();
  for (size_t i = 0; i < at.size() && n > 2; ++i) at[i] = i % 3 ? 7 : at[i];
  const Attrs a{{"outer", outer}, {"n", n}, {"inner", inner}, {"dims", dims}};
  for (const DType index : {DType::i64, DType::i32})
    check_same("ScatterRows", {dy, HostTensor::of<int64_t>({k}, at).cast(index)}, a, {{DType::f32, dims}});
  // Rows with an index out of range are dropped, as if they were 0.
  HostTensor zeroed = dy.cast(DType::f32);
  for (int64_t i = 0; i < k; i += 4) {
    at[static_cast<size_t>(i)] = i % 8 ? n + i : -n - 1 - i;
    for (int64_t o = 0; o < outer; ++o) std::fill_n(zeroed.as_mutable<float>() + (o * k + i) * inner, inner, 0.0f);
  }
  const std::vector<HostTensor> got =
      on_device("ScatterRows", {dy, HostTensor::of<int64_t>({k}, at)}, a, {{DType::f32, dims}});
  for (int64_t i = 0; i < k; i += 4) at[static_cast<size_t>(i)] = 0;
  const std::vector<HostTensor> want =
      evaluate_node(core_op("ScatterRows"), {zeroed, HostTensor::of<int64_t>({k}, at)}, a, {{DType::f32, dims}});
  CHECK(same_bits(got[0], want[0]));
}

}  // namespace

// Tables of one and two rows are summed by columns. Few rows are sorted in one launch, many in merged runs.
TEST_CASE("many rows are added to one row, and rows out of range are dropped", "[cuda]") {
  std::mt19937_64 rng(10);
  for (const int64_t outer : {1, 2}) {
    for (const int64_t k : {1, 15, 16, 17, 300, 1500}) {
      for (const int64_t n : {1, 2, 40}) {
        for (const int64_t inner : {1, 5, 40}) check_rows(outer, k, n, inner, rng);
      }
    }
  }
  check_rows(1, 300, 2, 384, rng);
  check_rows(1, 8192, 40, 4, rng);
  check_rows(1, 8193, 40, 4, rng);
}

TEST_CASE("scattered elements with equal indices in short and long lines", "[cuda]") {
  std::mt19937_64 rng(11);
  for (const Dims& d : {Dims{3, 40, 2}, Dims{1, 3000, 2}}) {
    const HostTensor dy = ints(d, -8, 8, DType::f32, rng), idx = ints(d, -9, 8, DType::i64, rng);
    const Dims y{d[0] + 1, 9, 3};
    check_same("ScatterElementsAdd", {dy, idx}, {{"axis", int64_t{1}}, {"dims", y}}, {{DType::f32, y}});
    const HostTensor base = ints(y, -3, 3, DType::f32, rng);
    for (const int64_t reduction : {0, 2, 3}) {
      if (d[1] > 1000 && reduction != 0) continue;
      check_same("ScatterElements", {base, idx, dy}, {{"axis", int64_t{1}}, {"reduction", reduction}},
                 {{DType::f32, y}});
      check_same("ScatterElements", {base.cast(DType::i64), idx, dy.cast(DType::i64)},
                 {{"axis", int64_t{1}}, {"reduction", reduction}}, {{DType::i64, y}});
    }
  }
  // Indices repeat: products of small integers are exact in any order.
  const HostTensor few = ints({2, 3}, -2, 1, DType::i64, rng);
  check_same("ScatterElements", {ints({2, 2}, 1, 3, DType::f32, rng), few, ints({2, 3}, -3, 3, DType::f32, rng)},
             {{"axis", int64_t{1}}, {"reduction", int64_t{1}}}, {{DType::f32, {2, 2}}});
  // The last of several rows with equal indices is kept.
  check_same(
      "ScatterNDRows",
      {ints({6, 5}, 0, 9, DType::f32, rng), ints({400}, 0, 5, DType::i64, rng), ints({400, 5}, 0, 99, DType::f32, rng)},
      {{"n", int64_t{6}}, {"inner", int64_t{5}}}, {{DType::f32, {6, 5}}});
}

TEST_CASE("indices out of range access nothing outside", "[cuda]") {
  const HostTensor x = HostTensor::of<float>({3, 2}, {0, 1, 2, 3, 4, 5}),
                   bad = HostTensor::of<int64_t>({4}, {-1000000007, -4, 3, 9223372036854775807});
  const Attrs rows{{"outer", int64_t{1}}, {"n", int64_t{3}}, {"inner", int64_t{2}}, {"dims", Ints{4, 2}}};
  CHECK(on_device("GatherRows", {x, bad}, rows, {{DType::f32, {4, 2}}})[0].to_doubles() ==
        std::vector<double>{0, 1, 0, 1, 4, 5, 4, 5});
  const HostTensor below = bad.reshaped({4, 1});
  CHECK(on_device("GatherElements", {x, below}, {{"axis", int64_t{0}}}, {{DType::f32, {4, 1}}})[0].to_doubles() ==
        std::vector<double>{0, 0, 4, 4});
  const HostTensor ones = HostTensor::of<float>({4, 1}, {1, 1, 1, 1});
  CHECK(on_device("ScatterElementsAdd", {ones, below}, {{"axis", int64_t{0}}, {"dims", Ints{3, 2}}},
                  {{DType::f32, {3, 2}}})[0]
            .to_doubles() == std::vector<double>(6, 0));
  CHECK(same_bits(on_device("ScatterElements", {x, below, ones}, {{"axis", int64_t{0}}, {"reduction", int64_t{0}}},
                            {{DType::f32, {3, 2}}})[0],
                  x));
  CHECK(same_bits(on_device("ScatterElements", {x, below, ones}, {{"axis", int64_t{0}}, {"reduction", int64_t{2}}},
                            {{DType::f32, {3, 2}}})[0],
                  x));
  const HostTensor updates = HostTensor::of<float>({4, 2}, {9, 9, 9, 9, 9, 9, 9, 9});
  CHECK(same_bits(on_device("ScatterNDRows", {x, bad, updates}, {{"n", int64_t{3}}, {"inner", int64_t{2}}},
                            {{DType::f32, {3, 2}}})[0],
                  x));
}

TEST_CASE("products of integers on the device wrap and broadcast") {
  const HostTensor a = HostTensor::of<int64_t>({2, 1, 2, 3}, Ints{1, 2, 3, 4, 5, 6, -1, 0, 1, 7, -2, 3});
  const HostTensor b = HostTensor::of<int64_t>({2, 3, 2}, Ints{1, 0, 0, 1, 2, 2, 3, 1, -1, 4, 0, 5});
  const Attrs plain{{"transA", int64_t{0}}, {"transB", int64_t{0}}, {"alpha", 1.0}};
  for (const DType t : {DType::i64, DType::i32}) {
    const HostTensor y = on_device("MatMul", {a.cast(t), b.cast(t)}, plain, {{t, {2, 2, 2, 2}}}).at(0);
    CHECK(y.to_ints() == Ints{7, 8, 16, 17, 1, 24, 7, 54, 1, 2, 13, 4, -3, 4, 23, 14});
  }
}

TEST_CASE("axes are merged, and more than a kernel takes are refused", "[cuda]") {
  CHECK(cuda::make_axes({2, 1, 3, 4}, {12, 0, 4, 1}).rank == 1);
  const Dims dims(9, 2), apart(9, 5);
  test::expect_error(
      "E_CUDA_SIZE", "at most 8 axes", [&] { cuda::make_axes(dims, apart); }, Exit::unsupported);
}
