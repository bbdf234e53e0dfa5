// The U-Net that `create` builds (models/architectures/unet.cc); weights have shapes and are zero.
#pragma once

#include "graph/source.h"
#include "trainer/losses/losses.h"

namespace amp {

struct UnetConfig {
  int64_t channels = 3, width = 64, depth = 4, classes = 2;
};

SourceGraph unet_graph(const UnetConfig& c);
Tensors unet_batch(const UnetConfig& c, int64_t batch, int64_t side);  // returns image (B, C, S, S) and label (B, S, S)

}  // namespace amp
