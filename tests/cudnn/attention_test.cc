// Checks without a GPU that cuDNN supports the attention problems of common models.
#include <catch2/catch_all.hpp>

#include "bench/roofline/roofline.h"
#include "models/architecture.h"
#include "tests/cudnn/described.h"
#include "tests/support.h"
#include "tests/zoo/golden.h"

using namespace amp;
using cuda::Attention;

namespace {

std::string text(const Attention& a) {
  return cat(a.backward ? "gradient " : "forward ", name_of(a.type), " batch ", a.batch, " heads ", a.heads,
             " queries ", a.queries, " keys ", a.keys, " widths ", a.width, " and ", a.value_width, " bias ",
             to_string(a.bias), a.causal ? " causal" : "", a.lengths ? " with lengths" : "",
             a.kept_scale != 0 ? " with dropout" : "");
}

void require_plans(const std::string& model, const StepWork& work) {
  INFO(model);
  CHECK(work.attentions.size() >= 2);  // one problem for forward and one for the gradient
  for (const Attention& a : work.attentions) {
    INFO(text(a));
    CHECK(test::refusal_of(a) == "");
  }
}

// Builds one layer, because the other layers have the same attention.
StepRequest bert(int64_t hidden, int64_t heads, int64_t batch, int64_t length, DType low) {
  StepRequest r;
  r.model.layers = 1;
  r.model.hidden = hidden;
  r.model.heads = heads;
  r.model.intermediate = 64;
  r.model.vocabulary = 100;
  r.batch = batch;
  r.length = length;
  r.low = low;
  return r;
}

}  // namespace

TEST_CASE("cuDNN plans the attentions of BERT and MiniLM for an H100", "[cudnn]") {
  test::skip_without_described_devices();
  for (const DType low : {DType::bf16, DType::f16}) {
    require_plans("BERT-base, 128 tokens", step_work(bert(768, 12, 32, 128, low)));
    require_plans("BERT-large, 384 tokens", step_work(bert(1024, 16, 8, 384, low)));
    require_plans("MiniLM, 128 tokens", step_work(bert(384, 12, 32, 128, low)));
  }
}

TEST_CASE("cuDNN plans the attentions of masked BERT for an H100", "[cudnn]") {
  test::skip_without_described_devices();
  StepRequest masked = bert(768, 12, 32, 128, DType::bf16);
  masked.model.mask = true;
  const StepWork work = step_work(masked);
  REQUIRE(work.attentions.size() == 4);  // forward and gradient: each with lengths, and with a bias
  CHECK(work.attentions[0].lengths);
  CHECK(work.attentions[1].bias == Dims{32, 1, 1, 128});
  require_plans("BERT-base with padding", work);
  masked.dropout = 0.1;
  const StepWork dropping = step_work(masked);
  CHECK(dropping.attentions.front().kept_scale == 1 / 0.9);
  require_plans("BERT-base with padding and dropout", dropping);
}

TEST_CASE("cuDNN plans the attentions of GPT-2 for an H100", "[cudnn]") {
  test::skip_without_described_devices();
  const Architecture& gpt2 = architecture("gpt2");
  DrawnWeights weights(1);
  Net net("gpt2", weights);
  gpt2.build(
      net,
      ModelConfig(R"({"vocab_size": 100, "n_embd": 768, "n_layer": 1, "n_head": 12, "n_positions": 1024})", "gpt2"),
      Head::causal_lm);
  ModelRequest r;
  r.source = net.graph();
  r.batch = {{"input_ids", HostTensor::zeros(DType::i64, {8, 384})},
             {"attention_mask", HostTensor::zeros(DType::i64, {8, 384})},
             {"label", HostTensor::zeros(DType::i64, {8, 384})}};
  const StepWork work = step_work(r);
  REQUIRE(work.attentions.size() == 4);
  CHECK((work.attentions[0].causal && work.attentions[0].lengths));
  CHECK(work.attentions[1].bias == Dims{8, 1, 384, 384});
  require_plans("GPT-2", work);
}

TEST_CASE("cuDNN plans causal attention, lengths and dropout by a given mask for an H100", "[cudnn]") {
  test::skip_without_described_devices();
  for (const DType low : {DType::bf16, DType::f16}) {
    for (const auto& [hidden, heads, batch, length] :
         {std::array<int64_t, 4>{768, 12, 32, 128}, {1024, 16, 8, 384}, {2048, 32, 4, 512}}) {
      const StepWork asked = step_work(bert(hidden, heads, batch, length, low));
      const auto form = [&](const char* name, const auto& set) {
        StepWork work = asked;
        for (Attention& a : work.attentions) set(a);
        require_plans(name, work);
      };
      form("causal", [](Attention& a) { a.causal = true; });
      form("lengths", [](Attention& a) { a.lengths = true; });
      form("dropout", [](Attention& a) { a.kept_scale = 1 / 0.9; });
      form("causal with lengths", [](Attention& a) { a.causal = a.lengths = true; });
      form("causal with dropout", [](Attention& a) {
        a.causal = true;
        a.kept_scale = 1 / 0.9;
      });
      form("causal with lengths and dropout", [](Attention& a) {
        a.causal = a.lengths = true;
        a.kept_scale = 1 / 0.9;
      });
    }
  }
}

TEST_CASE("cuDNN plans the attentions of an exported BERT for an H100", "[cudnn]") {
  test::skip_without_described_devices();
  const test::Golden g(test::source_root() + "/tests/data/zoo/bert_cls_eager_ts14");
  require_plans(g.name, step_work(ModelRequest{g.model.graph, g.batch, g.loss, g.batch_statistics, DType::bf16, {}}));
}

TEST_CASE("an attention that cuDNN does not support is refused without a device", "[cudnn]") {
  test::skip_without_described_devices();
  std::vector<Attention> asked = step_work(bert(768, 12, 32, 128, DType::bf16)).attentions;
  REQUIRE(!asked.empty());
  Attention a = asked.front();
  REQUIRE(test::refusal_of(a) == "");
  a.width = a.value_width = 61;  // odd width: rows of 61 elements are not aligned
  CHECK(!test::refusal_of(a).empty());
}
