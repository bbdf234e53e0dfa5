// Tensors of type INT4 and UINT4 hold quantized weights, two per byte. They are unpacked to int8 and uint8 when the
// model is read, because DequantizeLinear and GatherBlockQuantized compute with these types. Export writes the file's
// packed bytes.
#pragma once

#include <set>

#include "graph/source.h"
#include "importer/read/tensor.h"

namespace amp {

bool has_four_bits(int onnx_type);
// Returns the number of bytes of the tensor's payload. A byte holds two elements, the first in its low half.
int64_t packed_bytes(const onnx::TensorProto& t);
// Returns the elements as int8 or uint8. `external` is the payload if the tensor is stored outside the .onnx file.
// Throws the errors of decode() (importer/read/tensor.h).
HostTensor unpack(const onnx::TensorProto& t, const HostTensor& external = {});

// Throws E_TYPE (Exit::unsupported) if a node that does not dequantize reads one of `payloads` (addresses of unpacked
// elements). A quantizer, for example, would clip to 8 bits instead of 4.
void require_dequantized(const SourceGraph& g, const std::set<const void*>& payloads);

}  // namespace amp
