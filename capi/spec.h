// Conversions of the C interface's arguments: a JSON object to a RunSpec, options to a Host, tensors to HostTensors.
#pragma once

#include <cstring>
#include <string>

#include "base/error.h"
#include "capi/onnx_amp.h"
#include "run/host.h"
#include "run/spec/spec.h"
#include "run/steps/step_session.h"

namespace amp::capi {

// Reads settings as the command line reads a configuration file, but not from the environment. Notes are passed to
// `log`. Throws E_USAGE (Exit::usage).
RunSpec spec_of_json(const char* json, const Log& log);

// Copies as many bytes of the options as the caller's struct has. Returns default options for null.
onnx_amp_options options_of(const onnx_amp_options* given);
Host host_of(const onnx_amp_options& options);

// Returns views of the caller's memory, which must outlive them.
Tensors tensors_of(const onnx_amp_batch* batch);
onnx_amp_dtype dtype_of(DType type);

// Throws E_PARAMETER (Exit::usage) if a parameter has another number of elements than the caller's array.
void require_elements(const char* name, const HostTensor& parameter, size_t elements);

// Throws E_STRUCT_SIZE (Exit::usage) if the caller did not set the `size` of a struct; `given` may be null.
template <class T>
void require_size(const T* given, const char* type) {
  if (given && given->size < sizeof given->size)
    fail(Exit::usage, "E_STRUCT_SIZE", cat(type, ".size is ", given->size), cat("set it to sizeof(", type, ")"));
}

// Copies a result into the caller's struct, which has to->size bytes. Does nothing if `to` is null.
template <class T>
void give(T* to, T value) {
  if (!to) return;
  const size_t size = to->size < sizeof(T) ? to->size : sizeof(T);
  value.size = to->size;
  std::memcpy(to, &value, size);
}

}  // namespace amp::capi
