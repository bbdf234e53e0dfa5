// Counts the launches of a U-Net training step without a GPU: transposes occur only at the border of its NHWC region.
#include <catch2/catch_all.hpp>

#include "bench/roofline/roofline.h"

using namespace amp;

namespace {

// Copies that change a layout: copies of weights, of the weights' gradients, and of images.
struct Moves {
  int64_t nodes = 0, bytes = 0;
};
Moves moves_of(const StepWork& w) {
  Moves m;
  for (const cuda::Work& x : w.micro) {
    if (x.op != "Transpose") continue;
    ++m.nodes;
    m.bytes += x.bytes;
  }
  return m;
}

}  // namespace

TEST_CASE("a U-Net step of 256 x 256 moves no layout inside its chain", "[cuda][roofline][channels_last]") {
  const UnetRequest r;  // in bf16, the default
  const Moves chained = moves_of(step_work(r));

  // Transposes at the border: the images once, every weight of more than one tap in 16 bits, and its gradient in fp32.
  // The logits need none, because the loss reads them with the classes last.
  const SourceGraph source = unet_graph(r.model);
  int64_t nodes = 1, bytes = 2 * 2 * r.batch * r.model.channels * r.side * r.side;
  for (const SourceValue& v : source.values) {
    if (v.kind != SourceKind::parameter || v.data.rank() != 4 || v.data.dims()[2] * v.data.dims()[3] == 1) continue;
    nodes += 2;
    bytes += (2 + 2 + 4 + 4) * v.data.numel();
  }
  CHECK(chained.nodes == nodes);
  CHECK(chained.bytes == bytes);
}
