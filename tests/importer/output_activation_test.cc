// Tests how models end: activations after the logits, and losses inside the graph.
#include "importer/discover/output_activation.h"

#include <catch2/catch_all.hpp>

#include "tests/importer/models.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {
// Returns a model in which `tail` computes the output y from the result l of a linear layer.
SourceGraph model(const TempDir& folder, const std::string& tail, const std::string& shape = "B,3", int opset = 17,
                  const std::string& y = "float") {
  return import_text(folder, "<ir_version: 8, opset_import: [\"\": " + std::to_string(opset) +
                                 "]> net (float[B,4] x) => (" + y + "[" + shape +
                                 "] y) <float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}> { l = MatMul(x, w) " + tail + " }")
      .graph;
}
std::string found(const SourceGraph& g) {
  const auto e = output_activation(g, g.find("y"));
  return e ? e->op + " of " + g.values[static_cast<size_t>(e->logits)].name : "none";
}
}  // namespace

TEST_CASE("a trailing activation over the classes is found, through Identity and Cast") {
  const TempDir f;
  CHECK(found(model(f, "y = Softmax(l)")) == "Softmax of l");
  CHECK(found(model(f, "y = Softmax<axis = 1>(l)")) == "Softmax of l");
  CHECK(found(model(f, "y = LogSoftmax<axis = -1>(l)")) == "LogSoftmax of l");
  CHECK(found(model(f, "y = Sigmoid(l)")) == "Sigmoid of l");
  CHECK(found(model(f, "s = Softmax(l) y = Identity(s)")) == "Softmax of l");
  CHECK(found(model(f, "s = Softmax(l) y = Cast<to = 11>(s)", "B,3", 17, "double")) == "Softmax of l");
}

TEST_CASE("what is no activation over the classes is left alone") {
  const TempDir f;
  CHECK(found(model(f, "y = Softmax<axis = 0>(l)")) == "none");
  CHECK(found(model(f, "y = Identity(l)")) == "none");
  CHECK(found(model(f, "y = Tanh(l)")) == "none");
  CHECK(found(model(f, "s = Softmax(l) y = Log(s)")) == "none");
  CHECK(found(model(f, "s = Softmax(l) y = Cast<to = 7>(s)", "B,3", 17, "int64")) == "none");
  // Before opset 13 the default axis is 1, and all dims from the axis on are one class dimension.
  CHECK(found(model(f, "y = Softmax(l)", "B,3", 11)) == "Softmax of l");
  const std::string wide = "a = Constant<value = int64[4] {-1, 1, 1, 3}>() r = Reshape(l, a) ";
  CHECK(found(model(f, wide + "y = Softmax(r)", "B,1,1,3", 11)) == "none");
  CHECK(found(model(f, wide + "y = Softmax<axis = 3>(r)", "B,1,1,3", 11)) == "Softmax of r");
  CHECK(found(model(f, wide + "y = Softmax<axis = 1>(r)", "B,1,1,3")) == "Softmax of r");
}

TEST_CASE("a model's own loss is its scalar output that learns, by name where there are several") {
  const TempDir f;
  const auto own = [](const SourceGraph& g) {
    std::vector<std::string> names;
    for (const int v : own_losses(g)) names.push_back(g.values[static_cast<size_t>(v)].name);
    return names;
  };
  CHECK(own(model(f, "y = Identity(l)")).empty());
  const auto two = [&](const std::string& outputs, const std::string& tail) {
    return own(import_text(f, "<ir_version: 8, opset_import: [\"\": 17]> net (float[B,4] x) => (" + outputs +
                                  ") <float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}> { l = MatMul(x, w) " + tail + " }")
                   .graph);
  };
  CHECK(two("float y", "y = ReduceMean<keepdims = 0>(l)") == std::vector<std::string>{"y"});
  CHECK(two("float[1,1] y, float[B,3] l", "y = ReduceMean(l)") == std::vector<std::string>{"y"});
  CHECK(two("float lm_Loss, float n, float[B,3] l",
            "lm_Loss = ReduceMean<keepdims = 0>(l) n = ReduceMax<keepdims = 0>(l)") ==
        std::vector<std::string>{"lm_Loss"});
  CHECK(two("float a, float b", "a = ReduceMean<keepdims = 0>(l) b = ReduceMax<keepdims = 0>(l)") ==
        std::vector<std::string>{"a", "b"});
  CHECK(two("float a", "a = ReduceMean<keepdims = 0>(x)").empty());  // none: no weight affects the output a
}
