#include "graph/attrs.h"

#include <catch2/catch_all.hpp>

#include "base/error.h"
#include "graph/source.h"

using namespace amp;

TEST_CASE("attributes are looked up by name and kind") {
  const HostTensor t = HostTensor::scalar<float>(3);
  const Attrs a{{"axis", int64_t{-1}},
                {"alpha", 0.5},
                {"mode", std::string("tanh")},
                {"perm", std::vector<int64_t>{1, 0}},
                {"weights", std::vector<double>{0.5, 2}},
                {"value", t}};
  CHECK(a.i("axis", 7) == -1);
  CHECK(a.i("none", 7) == 7);
  CHECK(a.f("alpha", 1) == 0.5);
  CHECK(a.f("none", 1) == 1);
  CHECK(a.s("mode", "x") == "tanh");
  CHECK(a.s("none", "x") == "x");
  CHECK(a.ints("perm") == std::vector<int64_t>{1, 0});
  CHECK(a.ints("none", {4}) == std::vector<int64_t>{4});
  CHECK(a.floats("weights") == std::vector<double>{0.5, 2});
  CHECK(a.tensor("value")->as<float>()[0] == 3);
  CHECK(a.tensor("none") == nullptr);
  CHECK(a.graph("none") == nullptr);
  CHECK(a.has("axis"));
  CHECK_FALSE(a.has("none"));
}

TEST_CASE("an attribute of another kind is a model error that names it") {
  const Attrs a{{"axis", 0.5}};
  try {
    a.i("axis", 0);
    FAIL("a float was taken for an integer");
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::model);
    CHECK(e.id() == "E_ATTR");
    CHECK_THAT(e.fact(), Catch::Matchers::ContainsSubstring("'axis'"));
  }
  CHECK_THROWS_AS(a.s("axis", ""), Error);
  CHECK_THROWS_AS(a.ints("axis"), Error);
}

TEST_CASE("keys differ when attributes differ") {
  const HostTensor t = HostTensor::scalar<float>(3), same = t, other = HostTensor::scalar<float>(3);
  const auto key = [](const Attrs& a) { return a.key(); };
  CHECK(key({{"a", int64_t{1}}, {"b", 2.0}}) == key({{"b", 2.0}, {"a", int64_t{1}}}));
  CHECK(key({{"a", int64_t{1}}}) != key({{"a", int64_t{2}}}));
  CHECK(key({{"a", int64_t{1}}}) != key({{"b", int64_t{1}}}));
  CHECK(key({{"a", 0.1}}) != key({{"a", 0.1 + 1e-16}}));
  CHECK(key({{"a", std::vector<int64_t>{1, 2}}}) != key({{"a", std::vector<int64_t>{12}}}));
  CHECK(key({{"t", t}}) == key({{"t", same}}));
  CHECK(key({{"t", t}}) != key({{"t", other}}));  // tensors are compared by identity, not by contents
  CHECK(key({}).empty());
}
