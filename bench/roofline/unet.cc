#include "bench/roofline/unet.h"

#include "base/error.h"
#include "models/architecture.h"

namespace amp {

namespace {

class Zeros final : public WeightSource {
 public:
  HostTensor get(const std::string&, const Dims& dims, const Init&) override {
    return HostTensor::zeros(DType::f32, dims);
  }
  bool has(const std::string&) const override { return true; }
};

}  // namespace

SourceGraph unet_graph(const UnetConfig& c) {
  const ModelConfig config(cat("{\"in_chans\": ", c.channels, ", \"width\": ", c.width, ", \"depth\": ", c.depth,
                               ", \"num_classes\": ", c.classes, "}"),
                           "the roofline's U-Net");
  Zeros zeros;
  Net net("unet", zeros);
  architecture("unet").build(net, config, Head::none);
  return net.graph();
}

Tensors unet_batch(const UnetConfig& c, int64_t batch, int64_t side) {
  return {{"image", HostTensor::zeros(DType::f32, {batch, c.channels, side, side})},
          {"label", HostTensor::zeros(DType::i64, {batch, side, side})}};
}

}  // namespace amp
