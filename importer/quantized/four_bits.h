// Tensors of type INT4 and UINT4: quantized weights, two per byte. They are unpacked to int8 and uint8 when the model
// is read, the types that DequantizeLinear and GatherBlockQuantized compute with. The file's bytes are kept and written
// back.
#pragma once

#include <set>

#include "graph/source.h"
#include "importer/read/tensor.h"

namespace amp {

bool has_four_bits(int onnx_type);
// Bytes of a tensor's payload: two elements per byte, low halves first.
int64_t packed_bytes(const onnx::TensorProto& t);
// `external`: the payload, if it is not in the file itself. Errors as in decode().
HostTensor unpack(const onnx::TensorProto& t, const HostTensor& external = {});

// Fails with Exit::unsupported E_TYPE if a node other than a dequantizing one reads one of `payloads` (addresses of
// unpacked elements). A quantizer, for example, would clip to 8 bits instead of 4.
void require_dequantized(const SourceGraph& g, const std::set<const void*>& payloads);

}  // namespace amp
