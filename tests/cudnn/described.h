// What cuDNN says of an H100 that it knows from its description alone: from version 9.8 on it makes its plans for one.
// tests/data/cuda/h100_device_properties.json was written from NVIDIA's published figures of an H100 SXM.
#pragma once

#include <string>

#include "backend/cuda/attention.h"
#include "backend/cuda/convolution.h"

namespace amp::test {

// Empty: cuDNN has a deterministic plan within the limits of the runtime; else why not. Loading what it compiles needs
// a real driver, so that its check for support is the last one that every machine can have.
std::string refusal_of(const cuda::Attention& a);
std::string refusal_of(const cuda::Convolution& c, bool tf32 = false);

void skip_without_described_devices();

}  // namespace amp::test
