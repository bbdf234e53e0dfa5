// Queries cuDNN about an H100 by its description only: from version 9.8 cuDNN makes plans for a described device.
// tests/data/cuda/h100_device_properties.json was written from NVIDIA's published figures of an H100 SXM.
#pragma once

#include <string>

#include "backend/cuda/attention.h"
#include "backend/cuda/convolution.h"

namespace amp::test {

// Returns an empty text if cuDNN has a deterministic plan within the limits of the runtime, else the reason. Stops
// after cuDNN's check for support, because loading the compiled plan needs a real driver.
std::string refusal_of(const cuda::Attention& a);
std::string refusal_of(const cuda::Convolution& c, bool tf32 = false);

void skip_without_described_devices();

}  // namespace amp::test
