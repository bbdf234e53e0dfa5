// Class and prompt tokens of zeros, as onnxsim and onnxslim leave those of fresh models behind for a fixed batch.
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

// tokens [2,4,8], with two of zeros before them; what `body` makes of j goes on to the last layer.
bool token_trains(const std::string& body, const std::string& token = tensor_of("2,1,8", "made_up_0", 16, 0)) {
  const TempDir f;
  const Imported m =
      import_text(f, cat(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[2,4,8] x) => (float[2,S,3] y) <)", token,
                         ", ", tensor_of("8,8", "layer_weight", 64, 1), ", ", tensor_of("1,5,8", "positions", 40, 1),
                         ", ", tensor_of("8", "bias", 8, 1), ", ", tensor_of("8,3", "head_weight", 24, 1),
                         "> { t = MatMul (x, layer_weight) ", body, " y = MatMul (z, head_weight) }"));
  return value(m.graph, "made_up_0").trainable;
}

}  // namespace

TEST_CASE("zeros that are joined to tokens train where a table of positions is added to all of them", "[weights]") {
  CHECK(token_trains("j = Concat <axis = 1> (made_up_0, t)  z = Add (j, positions)"));
  CHECK(token_trains("j = Concat <axis = -2> (t, made_up_0)  z = Add (positions, j)"));
  // A first state: nothing is added, or a bias alone.
  CHECK_FALSE(token_trains("z = Concat <axis = 1> (made_up_0, t)"));
  CHECK_FALSE(token_trains("j = Concat <axis = 1> (made_up_0, t)  z = Add (j, bias)"));
}
