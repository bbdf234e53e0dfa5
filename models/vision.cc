#include "models/vision.h"

#include <cmath>

namespace amp {

Init torch_uniform(int64_t fan_in) { return Init::uniform(1 / std::sqrt(static_cast<double>(fan_in))); }

static Attrs window(int64_t kernel, int64_t stride, int64_t padding) {
  return {{"kernel_shape", std::vector<int64_t>{kernel, kernel}},
          {"strides", std::vector<int64_t>{stride, stride}},
          {"pads", std::vector<int64_t>(4, padding)}};
}

NetValue conv(Net& net, NetValue x, const std::string& module, const ConvLayer& s, const Init& w,
              const std::optional<Init>& bias) {
  std::vector<NetValue> in = {x, net.weight(module + ".weight", {s.out, s.in / s.groups, s.kernel, s.kernel}, w)};
  if (bias) in.push_back(net.weight(module + ".bias", {s.out}, *bias));
  Attrs attrs = window(s.kernel, s.stride, s.padding);
  if (s.groups != 1) attrs.set("group", s.groups);
  return net.op("Conv", module, in, attrs);
}

NetValue conv(Net& net, NetValue x, const std::string& module, const ConvLayer& s, const Init& w, bool bias) {
  return conv(net, x, module, s, w,
              bias ? std::optional(torch_uniform(s.in / s.groups * s.kernel * s.kernel)) : std::nullopt);
}

NetValue conv_transpose(Net& net, NetValue x, const std::string& module, const ConvLayer& s) {
  // PyTorch computes fan_in from the weight's second dim, which is `out` here.
  const Init drawn = torch_uniform(s.out * s.kernel * s.kernel);
  return net.op("ConvTranspose", module,
                {x, net.weight(module + ".weight", {s.in, s.out, s.kernel, s.kernel}, drawn),
                 net.weight(module + ".bias", {s.out}, drawn)},
                window(s.kernel, s.kernel, 0));
}

NetValue batch_norm(Net& net, NetValue x, const std::string& module, int64_t channels, double epsilon) {
  const auto per_channel = [&](const char* name, double value) {
    return net.weight(module + name, {channels}, Init::constant(value));
  };
  return net.op("BatchNormalization", module,
                {x, per_channel(".weight", 1), per_channel(".bias", 0), per_channel(".running_mean", 0),
                 per_channel(".running_var", 1)},
                {{"epsilon", epsilon}});
}

NetValue pool(Net& net, NetValue x, const std::string& type, const std::string& module, int64_t kernel, int64_t stride,
              int64_t padding) {
  return net.op(type, module, {x}, window(kernel, stride, padding));
}

NetValue torch_linear(Net& net, NetValue x, const std::string& module, int64_t in, int64_t out) {
  return net.linear(x, module, in, out, torch_uniform(in), torch_uniform(in));
}

std::vector<Dim> images_by(int64_t channels, int64_t height, int64_t width) {
  return {{-1, "batch_size"}, {channels, ""}, {height, ""}, {width, ""}};
}

}  // namespace amp
