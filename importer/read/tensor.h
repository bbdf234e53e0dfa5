// Converts between onnx::TensorProto and HostTensor. Payloads in raw_data are viewed, not copied; typed fields are
// decoded. Every size is checked against the bytes that are present before memory is allocated.
#pragma once

#include <onnx/onnx_pb.h>

#include <memory>
#include <optional>
#include <string>

#include "base/host_tensor.h"

namespace amp {

std::optional<DType> dtype_of(int onnx_type);  // returns nullopt if the type is invalid or not supported
int onnx_type_of(DType t);
std::string onnx_type_name(int onnx_type);  // returns the name, as "FLOAT8E4M3FN", or the number as text

// Returns the dims of a tensor. Throws E_DIM_NEG, E_DIM_OVERFLOW, E_RANK (Exit::model).
Dims checked_dims(const onnx::TensorProto& t, DType dtype);

// Returns the value of a tensor that the file itself stores (data_location DEFAULT), of a type that dtype_of() accepts.
// The result may be a view that shares ownership of `owner`. Throws E_TENSOR_FIELDS, E_TENSOR_SIZE (Exit::model) and
// the errors of checked_dims().
HostTensor decode(const onnx::TensorProto& t, std::shared_ptr<const void> owner);

// Replaces the payload of t by v. A raw tensor stays raw, a typed one stays typed. v must have t's type and dims.
void store(const HostTensor& v, onnx::TensorProto& t);

// Returns a new tensor whose payload is raw_data.
onnx::TensorProto encode(const HostTensor& v, const std::string& name);

}  // namespace amp
