// Class weights by name, and balanced as by scikit-learn's compute_class_weight("balanced", ...).
#include "run/prepare/class_weights.h"

#include <catch2/catch_all.hpp>

#include "data/tensor_dataset.h"
#include "tests/errors.h"
#include "tests/support.h"
#include "trainer/losses/loss_text.h"

using namespace amp;
using namespace amp::test;
using Catch::Approx;
using Words = std::vector<std::string>;

namespace {

Losses losses_of(const std::string& text) {
  Losses out;
  out.parts = parse_losses({text});
  return out;
}

std::unique_ptr<Dataset> labeled(const HostTensor& label) {
  const int64_t rows = label.dims()[0];
  TensorOptions options;
  options.batch_size = 1;
  return make_tensor_dataset({{"x", HostTensor::zeros(DType::f32, {rows, 1})}, {"label", label}}, "d.npz",
                             {{"x", DType::f32, Dims{-1, 1}}}, options);
}

}  // namespace

TEST_CASE("class weights by name", "[class_weights]") {
  Losses l = losses_of("ce,class_weights=spam=3:ham=0.5");
  CHECK(parse_losses({loss_json(l.parts[0])})[0].by_class == l.parts[0].by_class);
  expect_error(
      "E_LOSS", "needs the classes", [&] { (void)l.parts[0].list("class_weights"); }, Exit::usage);
  name_class_weights(l, {"ham", "other", "spam"});
  CHECK(l.parts[0].list("class_weights") == std::vector<double>{0.5, 1, 3});
  CHECK(loss_json(l.parts[0]) == R"({"kind":"cross_entropy","class_weights":[0.5,1.0,3.0]})");
  Losses json = losses_of(R"({"kind": "bce", "pos_weight": {"a:b": 2}})");
  name_class_weights(json, {"a:b", "c"});
  CHECK(json.parts[0].list("pos_weight") == std::vector<double>{2, 1});
  Losses typo = losses_of("ce,class_weights=spam=3");
  expect_error(
      "E_LOSS", "'spam' is none of the classes",
      [&] {
        name_class_weights(typo, {"ham", "eggs"});
      },
      Exit::usage);
  expect_error(
      "E_LOSS", "have no names", [&] { name_class_weights(typo, {}); }, Exit::usage);
}

TEST_CASE("balanced class weights", "[class_weights]") {
  // sklearn.utils.class_weight.compute_class_weight("balanced", classes=[0, 1, 2], y=[0]*6 + [1]*3 + [2])
  const auto label = HostTensor::of<int64_t>({11}, {0, 1, 0, 2, 0, 1, 0, -100, 0, 1, 0});
  Losses l = losses_of("ce,class_weights=balanced");
  CHECK(parse_losses({loss_json(l.parts[0])})[0].balanced);
  balance_class_weights(l, *labeled(label), 4, {"a", "b", "c", "unseen"}, Log());
  const std::vector<double>& w = l.parts[0].list("class_weights");
  REQUIRE(w.size() == 4);
  CHECK(w[0] == Approx(10.0 / 18));
  CHECK(w[1] == Approx(10.0 / 9));
  CHECK(w[2] == Approx(10.0 / 3));
  CHECK(w[3] == 1);
  Losses numbers = losses_of("ce,class_weights=balanced");
  expect_error(
      "E_LOSS", "these labels are none",
      [&] {
        balance_class_weights(numbers, *labeled(HostTensor::of<float>({3}, {1, 2, 3})), 3, {}, Log());
      },
      Exit::usage);
}
