// Converts tensors to and from JSON values, which ranks exchange as CBOR.
#pragma once

#include <nlohmann/json.hpp>

#include "base/host_tensor.h"

namespace amp {

nlohmann::json tensor_to_json(const HostTensor& tensor);  // null for an absent tensor
HostTensor tensor_from_json(const nlohmann::json& json);

}  // namespace amp
