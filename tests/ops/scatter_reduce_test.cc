// ScatterElements with mul, max and min, with repeated indices and ties, against PyTorch 2's scatter_reduce. Also
// MatMul of integers.
#include <catch2/catch_all.hpp>

#include "tests/ops/one_node.h"

using namespace amp;

namespace {

struct Reduced {
  const char* reduction;
  std::vector<double> y, dx, du;
};

}  // namespace

TEST_CASE("scattering by mul, max and min shares gradients as PyTorch does") {
  const HostTensor x = HostTensor::of<double>({4}, {1, 5, 0, 2}), u = HostTensor::of<double>({6}, {5, 5, 1, 0, 0, 3});
  const HostTensor at = HostTensor::of<int64_t>({6}, {1, 1, 0, 2, 3, 3}),
                   dy = HostTensor::of<double>({4}, {1, 6, 4, 2});
  const HostTensor tuples = HostTensor::of<int64_t>({6, 1}, {1, 1, 0, 2, 3, 3});
  for (const Reduced& r : {Reduced{"mul", {1, 125, 0, 0}, {1, 150, 0, 0}, {150, 150, 1, 0, 12, 0}},
                           Reduced{"max", {1, 5, 0, 3}, {0.5, 2, 2, 0}, {2, 2, 0.5, 2, 0, 2}},
                           Reduced{"min", {1, 5, 0, 0}, {0.5, 2, 2, 0}, {2, 2, 0.5, 2, 2, 0}}}) {
    for (const char* op : {"ScatterElements", "ScatterND"}) {
      for (const DType storage : {DType::f32, DType::f16, DType::f64}) {
        INFO(op << " " << r.reduction << " " << name_of(storage));
        const OneNode n{
            op, 18,   {{"reduction", std::string(r.reduction)}}, {x, std::string(op) == "ScatterND" ? tuples : at, u},
            1,  false};
        const NodeRun run = run_node(n, dy, {0, 2}, storage == DType::f64 ? storage : DType::f32, storage);
        CHECK(run.outputs[0].to_doubles() == r.y);
        CHECK(run.grads.at(0).to_doubles() == r.dx);
        CHECK(run.grads.at(2).to_doubles() == r.du);
      }
    }
  }
}

TEST_CASE("MatMul of integers broadcasts its batch") {
  for (const DType t : {DType::i64, DType::i32}) {
    const auto ints = [&](Dims d, const std::vector<int64_t>& v) {
      return HostTensor::of<int64_t>(std::move(d), v).cast(t);
    };
    const HostTensor a = ints({2, 1, 2, 3}, {1, 2, 3, 4, 5, 6, -1, 0, 1, 7, -2, 3});
    const HostTensor b = ints({2, 3, 2}, {1, 0, 0, 1, 2, 2, 3, 1, -1, 4, 0, 5});
    const HostTensor y = run_node({"MatMul", 17, {}, {a, b}, 1, false}, {}, {}, DType::f32).outputs[0];
    CHECK(y.dims() == Dims{2, 2, 2, 2});
    CHECK(y.to_ints() == std::vector<int64_t>{7, 8, 16, 17, 1, 24, 7, 54, 1, 2, 13, 4, -3, 4, 23, 14});
    const HostTensor row =
        run_node({"MatMul", 17, {}, {ints({3}, {1, 0, 2}), b}, 1, false}, {}, {}, DType::f32).outputs[0];
    CHECK(row.to_ints() == std::vector<int64_t>{5, 4, 3, 11});
  }
}
