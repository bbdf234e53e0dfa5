// Tensors of type INT4 and UINT4: weights that a quantizer stored, two to a byte. They are unpacked to int8 and uint8
// as the model is read, which is what DequantizeLinear and GatherBlockQuantized compute with. The file's bytes stay as
// they are and are written back.
#pragma once

#include <set>

#include "graph/source.h"
#include "importer/read/tensor.h"

namespace amp {

bool has_four_bits(int onnx_type);
// Bytes of a tensor's payload: its elements, low halves first.
int64_t packed_bytes(const onnx::TensorProto& t);
// `external`: the payload, where it is not in the file itself. Exit::model as decode().
HostTensor unpack(const onnx::TensorProto& t, const HostTensor& external = {});

// Exit::unsupported E_TYPE where a node other than a dequantizing one reads one of `payloads` (addresses of unpacked
// elements): a quantizer would clip to 8 bits instead of 4.
void require_dequantized(const SourceGraph& g, const std::set<const void*>& payloads);

}  // namespace amp
