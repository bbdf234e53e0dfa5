#include "importer/quantized/four_bits.h"

#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace amp {

bool has_four_bits(int onnx_type) {
  return onnx_type == onnx::TensorProto::INT4 || onnx_type == onnx::TensorProto::UINT4;
}

int64_t packed_bytes(const onnx::TensorProto& t) { return (numel(checked_dims(t, DType::i8)) + 1) / 2; }

HostTensor unpack(const onnx::TensorProto& t, const HostTensor& external) {
  const bool is_signed = t.data_type() == onnx::TensorProto::INT4;
  const Dims dims = checked_dims(t, DType::i8);
  const int64_t count = numel(dims), want = packed_bytes(t);
  std::vector<uint8_t> typed;
  for (const int32_t entry : t.int32_data()) typed.push_back(static_cast<uint8_t>(entry));
  if (!t.raw_data().empty() && !typed.empty())
    fail(Exit::model, "E_TENSOR_FIELDS", "the tensor has both raw_data and a typed data field");
  const auto* bytes = external         ? static_cast<const uint8_t*>(external.data())
                      : !typed.empty() ? typed.data()
                                       : reinterpret_cast<const uint8_t*>(t.raw_data().data());
  const int64_t have = external         ? external.bytes()
                       : !typed.empty() ? static_cast<int64_t>(typed.size())
                                        : static_cast<int64_t>(t.raw_data().size());
  if (have != want)
    fail(Exit::model, "E_TENSOR_SIZE",
         cat(onnx_type_name(t.data_type()), " ", to_string(dims), " needs ", want, " bytes, the tensor holds ", have));
  HostTensor out = HostTensor::empty(is_signed ? DType::i8 : DType::u8, dims);
  auto* to = static_cast<uint8_t*>(out.mutable_data());
  for (int64_t i = 0; i < count; ++i) {
    const int half = i % 2 ? bytes[i / 2] >> 4 : bytes[i / 2] & 15;
    to[i] = static_cast<uint8_t>(is_signed && half > 7 ? half - 16 : half);
  }
  return out;
}

void require_dequantized(const SourceGraph& g, const std::set<const void*>& payloads) {
  if (payloads.empty()) return;
  for (const SourceNode& n : g.nodes) {
    for (const auto& [name, value] : n.attrs.items()) {
      if (const auto* inner = std::get_if<std::shared_ptr<const SourceGraph>>(&value))
        require_dequantized(**inner, payloads);
    }
    if (n.op == "DequantizeLinear" || n.op == "GatherBlockQuantized") continue;
    for (const int v : n.inputs) {
      if (v >= 0 && g.values[static_cast<size_t>(v)].data &&
          payloads.count(g.values[static_cast<size_t>(v)].data.data()))
        fail(Exit::unsupported, "E_TYPE",
             cat("'", printable(g.values[static_cast<size_t>(v)].name), "' has 4 bits, and ", printable(n.op), " '",
                 printable(n.name), "' reads it"),
             "4-bit weights are read by DequantizeLinear, MatMulNBits and GatherBlockQuantized");
    }
  }
}

}  // namespace amp
