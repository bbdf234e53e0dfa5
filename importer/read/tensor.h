// Converts between onnx::TensorProto and HostTensor. Payloads in raw_data are viewed, not copied; typed fields are
// decoded. Every size is checked against the bytes that are present before memory is allocated.
#pragma once

#include <onnx/onnx_pb.h>

#include <memory>
#include <optional>
#include <string>

#include "base/host_tensor.h"

namespace amp {

std::optional<DType> dtype_of(int onnx_type);  // nullopt if the type is invalid or not supported
int onnx_type_of(DType t);
std::string onnx_type_name(int onnx_type);  // "FLOAT8E4M3FN", or the number

// Dims of a tensor. Errors: Exit::model E_DIM_NEG, E_DIM_OVERFLOW, E_RANK.
Dims checked_dims(const onnx::TensorProto& t, DType dtype);

// The value of a tensor stored in the file itself (data_location DEFAULT), of a type that dtype_of() accepts. The
// result may be a view that shares ownership of `owner`. Errors: Exit::model E_TENSOR_FIELDS, E_TENSOR_SIZE and those
// of checked_dims().
HostTensor decode(const onnx::TensorProto& t, std::shared_ptr<const void> owner);

// Replaces the payload by v and keeps its field style (raw or typed). v must have t's type and dims.
void store(const HostTensor& v, onnx::TensorProto& t);

// A new raw tensor.
onnx::TensorProto encode(const HostTensor& v, const std::string& name);

}  // namespace amp
