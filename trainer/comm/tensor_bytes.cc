#include "trainer/comm/tensor_bytes.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace amp {

nlohmann::json tensor_to_json(const HostTensor& tensor) {
  if (!tensor) return nullptr;
  const auto* const bytes = static_cast<const uint8_t*>(tensor.data());
  return {static_cast<int>(tensor.dtype()), tensor.dims(),
          nlohmann::json::binary(std::vector<uint8_t>(bytes, bytes + tensor.bytes()))};
}

HostTensor tensor_from_json(const nlohmann::json& json) {
  if (json.is_null()) return {};
  HostTensor out = HostTensor::empty(static_cast<DType>(json.at(0).get<int>()), json.at(1).get<Dims>());
  const auto& data = json.at(2).get_binary();
  check(static_cast<int64_t>(data.size()) == out.bytes(), "a tensor of another size");
  std::copy(data.begin(), data.end(), static_cast<uint8_t*>(out.mutable_data()));
  return out;
}

}  // namespace amp
