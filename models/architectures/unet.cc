// U-Net (Ronneberger et al. 2015, arXiv 1505.04597), here with padding, BatchNorm and transposed convolutions.
#include "base/error.h"
#include "models/architecture.h"
#include "models/vision.h"

namespace amp {
namespace {

NetValue twice(Net& net, NetValue x, const std::string& at, int64_t in, int64_t out) {
  for (int i = 1; i <= 2; ++i) {
    const std::string n = cat(at, ".conv", i);
    x = conv(net, x, n, {in, out, 3, 1, 1}, torch_uniform(in * 9), false);
    x = net.op("Relu", n, {batch_norm(net, x, cat(at, ".norm", i), out)});
    in = out;
  }
  return x;
}

void build_unet(Net& net, const ModelConfig& c, Head) {
  const int64_t channels = c.positive("in_chans"), base = c.positive("width"), depth = c.positive("depth");
  const int64_t classes = c.positive("num_classes");
  if (depth > 8) c.refuse("depth", "expected at most 8");
  std::vector<Dim> dims = {{-1, "batch_size"}, {channels, ""}, {-1, "height"}, {-1, "width"}};
  NetValue x = net.input("image", DType::f32, dims);
  std::vector<NetValue> across;
  int64_t width = channels;
  for (int64_t i = 0; i < depth; ++i) {
    x = twice(net, x, cat("down.", i), width, base << i);
    across.push_back(x);
    width = base << i;
    x = pool(net, x, "MaxPool", cat("down.", i), 2, 2);
  }
  x = twice(net, x, "middle", width, base << depth);
  for (int64_t i = depth; i-- > 0;) {
    const std::string at = cat("up.", i);
    const int64_t out = base << i;
    x = conv_transpose(net, x, at + ".up", {2 * out, out, 2});
    x = net.op("Concat", at, {across[static_cast<size_t>(i)], x}, {{"axis", int64_t{1}}});
    x = twice(net, x, at, 2 * out, out);
  }
  dims[1] = {classes, ""};
  net.output(conv(net, x, "head", {base, classes, 1}, torch_uniform(base), true), "logits", dims);
}

const RegisterArchitecture unet_row{
    {"unet",
     {},
     "",
     {"head."},
     {Head::none},
     R"({"architecture": "unet", "in_chans": 3, "width": 32, "depth": 4, "num_classes": 2})",
     build_unet}};

}  // namespace
}  // namespace amp
