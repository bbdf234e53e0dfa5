// Tests class and prompt tokens of zeros, as onnxsim and onnxslim write the tokens of untrained models for a fixed
// batch.
#include <catch2/catch_all.hpp>

#include "base/text.h"
#include "models.h"
#include "tests/importer/values.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

std::string tensor_of(const std::string& dims, const std::string& name, int64_t n, double scale) {
  std::vector<std::string> all;
  for (int64_t i = 0; i < n; ++i) all.push_back(scale == 0 ? "0" : std::to_string(scale * learned(i)));
  return cat("float[", dims, "] ", name, " = {", join(all, ","), "}");
}

// Returns the importer's decision on zeros that `body` concatenates with tokens [2,4,8]. The last layer of the model
// reads the result z of `body`.
struct Token {
  bool trains = false, joined = false;  // joined: whether the evidence contains "joined to tokens"
};
Token token(const std::string& body, const std::string& tensor = tensor_of("2,1,8", "made_up_0", 16, 0)) {
  const TempDir f;
  const Imported m =
      import_text(f, cat(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[2,4,8] x) => (float[2,S,3] y) <)", tensor,
                         ", ", tensor_of("8,8", "layer_weight", 64, 1), ", ", tensor_of("1,5,8", "positions", 40, 1),
                         ", ", tensor_of("8", "bias", 8, 1), ", ", tensor_of("8,3", "head_weight", 24, 1),
                         "> { t = MatMul (x, layer_weight) ", body, " y = MatMul (z, head_weight) }"));
  const std::string evidence = m.verdicts.at(static_cast<size_t>(m.graph.find("made_up_0"))).text();
  return {value(m.graph, "made_up_0").trainable, evidence.find("joined to tokens") != std::string::npos};
}

}  // namespace

TEST_CASE("zeros that are joined to tokens train where a table of positions is added to all of them", "[weights]") {
  for (const char* body : {"j = Concat <axis = 1> (made_up_0, t)  z = Add (j, positions)",
                           "j = Concat <axis = -2> (t, made_up_0)  z = Add (positions, j)"}) {
    INFO(body);
    CHECK(token(body).trains);
    CHECK(token(body).joined);
  }
  // The zeros are an initial state: nothing is added to them, or only a bias.
  CHECK_FALSE(token("z = Concat <axis = 1> (made_up_0, t)").joined);
  CHECK_FALSE(token("j = Concat <axis = 1> (made_up_0, t)  z = Add (j, bias)").joined);
}
