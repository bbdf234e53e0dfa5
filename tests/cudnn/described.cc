#include "tests/cudnn/described.h"

#include <cuda_runtime.h>
#include <cudnn.h>

#include <catch2/catch_all.hpp>
#include <fstream>
#include <functional>
#include <iterator>

#include "backend/cuda/runtime/cudnn_attention_graph.h"
#include "backend/cuda/runtime/cudnn_convolution_graph.h"
#include "tests/support.h"

// cudnn-frontend's checks of an attention query the CUDA runtime, even for a described device. These functions replace
// libcudart's. The checks read `major`.
extern "C" cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
extern "C" cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {};
  p->major = 9;
  return cudaSuccess;
}

namespace amp::test {

namespace fe = cudnn_frontend;

static std::shared_ptr<const fe::DeviceProperties> h100() {
  static const auto device = [] {
    std::ifstream in(source_root() + "/tests/data/cuda/h100_device_properties.json");
    REQUIRE(in);
    const std::vector<uint8_t> json(std::istreambuf_iterator<char>(in), {});
    auto described = std::make_shared<fe::DeviceProperties>();
    REQUIRE(described->deserialize(json).is_good());
    return described;
  }();
  return device;
}

static std::string refusal(const cuda::PlanLimits& limits, const std::function<void(fe::graph::Graph&)>& describe) {
  fe::graph::Graph g;
  g.set_device_properties(h100());
  try {
    describe(g);
    fe::error_t e = cuda::find_plans(g, nullptr, limits);
    if (!e.is_good()) return e.get_message().empty() ? "refused" : e.get_message();
  } catch (const std::exception& e) {  // cudnn-frontend throws for unsupported graphs
    return e.what();
  }
  return {};
}

std::string refusal_of(const cuda::Attention& a) {
  return refusal({cuda::kAttentionWorkspace}, [&](fe::graph::Graph& g) { cuda::describe_attention(g, a); });
}

std::string refusal_of(const cuda::Convolution& c, bool tf32) {
  return refusal(cuda::convolution_limits(c, tf32), [&](fe::graph::Graph& g) {
    if (!cuda::describe_convolution(g, c)) fail(Exit::unsupported, "E_CUDA_SIZE", "too many elements");
  });
}

void skip_without_described_devices() {
  if (cudnnGetVersion() < 90800) SKIP("cuDNN " << cudnnGetVersion() << " plans for no described device");
}

}  // namespace amp::test
