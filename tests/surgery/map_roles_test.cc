// Tests which role each linear map gets, and how packed products are divided, for exports of common architectures.
#include <onnx/defs/parser.h>

#include "base/text.h"
#include "importer/surgery/linear_maps.h"
#include "surgery.h"

using namespace amp;
using namespace amp::test;

namespace {

std::map<std::string, int> roles_of(const std::vector<LinearMap>& maps) {
  std::map<std::string, int> out;
  for (const LinearMap& m : maps) ++out[m.role + (m.by_name ? " by name" : "")];
  return out;
}

std::string text_of(const std::map<std::string, int>& counts) {
  std::vector<std::string> out;
  for (const auto& [role, n] : counts) out.push_back(cat(role, " ", n));
  return join(out, ", ");
}

}  // namespace

TEST_CASE("roles follow from the graph") {
  const std::pair<const char*, const char*> models[] = {
      {"bert.onnx", "down 2, embedding 3, head 1, k 2, o 2, other 1, q 2, up 2, v 2"},  // other: the pooler
      {"distilbert.onnx", "down 2, embedding 2, head 1, k 2, o 2, other 1, q 2, up 2, v 2"},
      // Other: pooler or dense layer of the head, and the projection of the embeddings. ALBERT's layers share weights.
      {"albert.onnx", "down 1, embedding 3, head 1, k 1, o 1, other 2, q 1, up 1, v 1"},
      {"electra.onnx", "down 2, embedding 3, head 1, k 2, o 2, other 2, q 2, up 2, v 2"},
      {"gpt2.onnx", "down 2, embedding 2, head 1, o 2, qkv 2, up 2"},
      {"vit.onnx", "conv 1, down 2, head 1, k 2, o 2, q 2, up 2, v 2"},
      {"t5_encoder.onnx", "down 2, embedding 2, k 2, o 2, q 2, up 2, v 2"},
      {"conv.onnx", "conv 2"},
      {"layers_convnext_ts.onnx", "conv 4, down 7, head 1, up 7"},
      // qkv of Swin is divided by Gather after Reshape, so it has no parts. Other: the merging of patches.
      {"layers_swin_dyn.onnx", "conv 1, down 3, head 1, o 3, other 1, qkv 3, up 3"},
  };
  for (const auto& [file, want] : models) {
    INFO(file);
    CHECK(text_of(roles_of(find_linear_maps(import_model(kData + file).graph))) == want);
  }
}

TEST_CASE("roles and parts of decoders with a key/value cache") {
  // q, k and v are one map. The attention operator (llama), or a Split before the norms of heads (qwen3), divides its
  // result.
  for (const char* folder : {"llama-int4", "llama-int4-qdq", "qwen3-fp32"}) {
    INFO(folder);
    ImportOptions o;
    o.past.head_size = 16;
    int packed = 0;
    const std::vector<LinearMap> maps =
        find_linear_maps(import_model(test_data(cat("llm/", folder, "/model.onnx")), o).graph);
    CHECK(text_of(roles_of(maps)) == "down 2, embedding 1, gate 2, head 1, o 2, qkv 2, up 2");
    for (const LinearMap& m : maps) {
      if (m.role != "qkv") continue;
      REQUIRE(m.parts.size() == 3);
      CHECK(m.parts[0].size == 64);
      CHECK(m.parts[1].first == 64);
      CHECK(m.parts[1].size == 32);
      CHECK(m.parts[2].first == 96);
      CHECK(m.parts[2].size == 32);
      ++packed;
    }
    CHECK(packed == 2);
  }
  // This model has only operators of ONNX: each head's keys and values are repeated, and positions are rotated by Mul
  // and Add.
  ImportOptions o;
  o.past.head_size = 16;
  CHECK(text_of(roles_of(find_linear_maps(import_model(test_data("llm/optimum-llama/model.onnx"), o).graph))) ==
        "down 2, embedding 1, gate 2, head 1, k 2, o 2, q 2, up 2, v 2");
}

TEST_CASE("a product that a Split divides into q, k and v has parts in the order of the graph") {
  for (const LinearMap& m : find_linear_maps(import_model(kData + "gpt2.onnx").graph)) {
    CHECK(m.parts.size() == (m.role == "qkv" ? 3 : 0));
    int64_t next = 0;
    for (size_t i = 0; i < m.parts.size(); ++i) {
      CHECK(m.parts[i].role == std::vector<std::string>{"q", "k", "v"}.at(i));
      CHECK(m.parts[i].first == next);
      CHECK(m.parts[i].size == m.in);
      next += m.parts[i].size;
    }
  }
}

TEST_CASE("roles and their groups") {
  CHECK(role_in("q", "qkv"));
  CHECK(role_in("qkv", "attention"));
  CHECK(role_in("down", "mlp"));
  CHECK(role_in("other", "all-linear"));
  CHECK_FALSE(role_in("head", "all-linear"));
  CHECK_FALSE(role_in("embedding", "all-linear"));
  CHECK_FALSE(role_in("o", "mlp"));
  CHECK(is_role("all-linear"));
  CHECK_FALSE(is_role("q_proj"));
}
