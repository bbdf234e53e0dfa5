// BitShift of signed integers, as ONNX 28 defines it (onnx.reference).
#include <catch2/catch_all.hpp>

#include "tests/ops/one_node.h"

using namespace amp;

namespace {

template <class T>
std::vector<int64_t> shifted(const std::string& direction, std::vector<T> x, std::vector<T> n) {
  OneNode node;
  node.op = "BitShift";
  node.version = 28;
  node.attrs.set("direction", direction);
  const Dims dims{static_cast<int64_t>(x.size())};
  node.inputs = {HostTensor::of<T>(dims, x), HostTensor::of<T>(dims, n)};
  return run_node(node, {}, {}, DType::f32).outputs[0].to_ints();
}

}  // namespace

TEST_CASE("shifts of negative integers repeat the sign", "[shift]") {
  using Values = std::vector<int64_t>;
  CHECK(shifted<int64_t>("RIGHT", {-8, -1, 8, -8, -8, 8, 8}, {1, 5, 1, 64, -1, 64, -1}) ==
        Values{-4, -1, 4, -1, -1, 0, 0});
  CHECK(shifted<int32_t>("RIGHT", {-8, -7, 8, -8, 8}, {1, 1, 3, 32, 40}) == Values{-4, -4, 1, -1, 0});
  CHECK(shifted<int8_t>("LEFT", {64, -64, -1, 3, 3}, {1, 1, 7, 8, -2}) == Values{-128, -128, -128, 0, 0});
  CHECK(shifted<uint8_t>("RIGHT", {200, 200, 1}, {1, 8, 1}) == Values{100, 0, 0});
}
