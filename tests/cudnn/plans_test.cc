// What cuDNN says of the attentions that models ask for, without a GPU: from version 9.8 on it makes its plans for a
// device that is described in JSON. tests/data/cuda/h100_device_properties.json is such a description, written from
// NVIDIA's published figures of an H100 SXM.
#include <cuda_runtime.h>
#include <cudnn.h>

#include <catch2/catch_all.hpp>
#include <fstream>
#include <iterator>

#include "backend/cuda/runtime/cudnn_attention_graph.h"
#include "bench/roofline/roofline.h"
#include "tests/support.h"
#include "tests/zoo/golden.h"

// The frontend's own checks of an attention ask the CUDA runtime, whatever device was described. These functions answer
// instead of libcudart's; `major` is what the checks read.
extern "C" cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
extern "C" cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {};
  p->major = 9;
  return cudaSuccess;
}

using namespace amp;
using cuda::Attention;

namespace {

namespace fe = cudnn_frontend;

std::shared_ptr<const fe::DeviceProperties> h100() {
  std::ifstream in(test::source_root() + "/tests/data/cuda/h100_device_properties.json");
  REQUIRE(in);
  const std::vector<uint8_t> json(std::istreambuf_iterator<char>(in), {});
  auto described = std::make_shared<fe::DeviceProperties>();
  REQUIRE(described->deserialize(json).is_good());
  return described;
}

// Empty: cuDNN has a deterministic plan for it. Loading what it compiles needs a real driver, so that its answer to
// check_support() is the last one that every machine can have.
std::string refusal(const Attention& a) {
  static const auto device = h100();
  fe::graph::Graph g;
  g.set_device_properties(device);
  try {
    cuda::describe_attention(g, a);
    for (const auto& step : std::vector<std::function<fe::error_t()>>{
             [&] { return g.validate(); }, [&] { return g.build_operation_graph(); },
             [&] { return g.create_execution_plans({fe::HeurMode_t::A}); }, [&] { return g.check_support(); }}) {
      fe::error_t e = step();
      if (!e.is_good()) return e.get_message().empty() ? "refused" : e.get_message();
    }
  } catch (const std::exception& e) {  // the headers throw where they are at a loss
    return e.what();
  }
  return {};
}

std::string text(const Attention& a) {
  return cat(a.backward ? "gradient " : "forward ", name_of(a.type), " batch ", a.batch, " heads ", a.heads,
             " queries ", a.queries, " keys ", a.keys, " widths ", a.width, " and ", a.value_width, " bias ",
             to_string(a.bias));
}

void require_plans(const std::string& model, const StepWork& work) {
  INFO(model);
  CHECK(work.attentions.size() >= 2);  // forward and gradient
  for (const Attention& a : work.attentions) {
    INFO(text(a));
    CHECK(refusal(a) == "");
  }
}

// One layer: the others ask for the same.
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
  if (cudnnGetVersion() < 90800) SKIP("cuDNN " << cudnnGetVersion() << " plans for no described device");
  for (const DType low : {DType::bf16, DType::f16}) {
    require_plans("BERT-base, 128 tokens", step_work(bert(768, 12, 32, 128, low)));
    require_plans("BERT-large, 384 tokens", step_work(bert(1024, 16, 8, 384, low)));
    require_plans("MiniLM, 128 tokens", step_work(bert(384, 12, 32, 128, low)));
  }
}

TEST_CASE("cuDNN plans the attentions of masked BERT and of causal models for an H100", "[cudnn]") {
  if (cudnnGetVersion() < 90800) SKIP("cuDNN " << cudnnGetVersion() << " plans for no described device");
  StepRequest masked = bert(768, 12, 32, 128, DType::bf16);
  masked.model.mask = true;
  const StepWork work = step_work(masked);
  REQUIRE(work.attentions.front().bias == Dims{32, 1, 1, 128});
  require_plans("BERT-base with padding", work);
  StepWork causal = step_work(bert(768, 12, 8, 384, DType::bf16));
  for (Attention& a : causal.attentions) a.bias = {1, 1, a.queries, a.keys};  // as GPT-2 and Llama have their mask
  require_plans("a causal mask", causal);
}

TEST_CASE("cuDNN plans the attentions of an exported BERT for an H100", "[cudnn]") {
  if (cudnnGetVersion() < 90800) SKIP("cuDNN " << cudnnGetVersion() << " plans for no described device");
  const test::Golden g(test::source_root() + "/tests/data/zoo/bert_cls_eager_ts14");
  require_plans(g.name, step_work(ModelRequest{g.model.graph, g.batch, g.loss, g.batch_statistics, DType::bf16, {}}));
}

TEST_CASE("an attention that cuDNN has not is refused without a device", "[cudnn]") {
  if (cudnnGetVersion() < 90800) SKIP("cuDNN " << cudnnGetVersion() << " plans for no described device");
  std::vector<Attention> asked = step_work(bert(768, 12, 32, 128, DType::bf16)).attentions;
  REQUIRE(!asked.empty());
  Attention a = asked.front();
  REQUIRE(refusal(a) == "");
  a.width = a.value_width = 61;  // rows that begin at odd addresses
  CHECK(!refusal(a).empty());
}
