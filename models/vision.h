// Building blocks of image models: convolution, normalization, pooling. Images are (B, C, H, W).
#pragma once

#include <optional>
#include <string>

#include "models/net.h"

namespace amp {

struct ConvLayer {
  int64_t in, out, kernel;
  int64_t stride = 1, padding = 0, groups = 1;
};

// Returns PyTorch's default initialization of convolutions and linear layers (kaiming_uniform_ with a = sqrt 5):
// uniform in +-1 / sqrt(fan_in), for weight and bias.
Init torch_uniform(int64_t fan_in);

// torch.nn.Conv2d: weight (out, in / groups, kernel, kernel).
NetValue conv(Net& net, NetValue x, const std::string& module, const ConvLayer& s, const Init& w,
              const std::optional<Init>& bias);
NetValue conv(Net& net, NetValue x, const std::string& module, const ConvLayer& s, const Init& w,
              bool bias);  // whether to add a bias, initialized as by PyTorch
// torch.nn.ConvTranspose2d without padding: weight (in, out, kernel, kernel); the stride equals the kernel.
NetValue conv_transpose(Net& net, NetValue x, const std::string& module, const ConvLayer& s);
// torch.nn.BatchNorm2d in inference form: weight, bias, running_mean, running_var.
NetValue batch_norm(Net& net, NetValue x, const std::string& module, int64_t channels, double epsilon = 1e-5);
// type: MaxPool or AveragePool.
NetValue pool(Net& net, NetValue x, const std::string& type, const std::string& module, int64_t kernel, int64_t stride,
              int64_t padding = 0);

// torch.nn.Linear with PyTorch's default initialization. x is (B, in).
NetValue torch_linear(Net& net, NetValue x, const std::string& module, int64_t in, int64_t out);

std::vector<Dim> images_by(int64_t channels, int64_t height, int64_t width);  // returns (batch_size, channels, ...)

}  // namespace amp
