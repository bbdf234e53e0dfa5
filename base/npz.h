// NumPy's .npy and .npz files. .npy: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html; .npz is a
// zip archive (stored or deflated) of those. C order, little-endian numbers and bool only; nothing is unpickled.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/safetensors.h"

namespace amp {

// Errors: E_DATA_NPY with `exit`, naming the member and the field; E_FILE_MISSING, E_FILE_READ.
HostTensor read_npy(const std::string& path, Exit exit = Exit::data);
std::vector<NamedTensor> read_npz(const std::string& path, Exit exit = Exit::data);  // "x.npy" is named "x"

// By extension: .safetensors (mapped where it is large), .npz, or .npy (one tensor named after the file). Any other:
// Exit::usage, E_FILE_TYPE.
std::vector<NamedTensor> read_tensor_file(const std::string& path, Exit exit = Exit::data);
void write_tensor_file(const std::string& path, const std::vector<NamedTensor>& tensors);
void require_tensor_file(const std::string& path);  // that error alone, before anything is computed

// Atomic and durable (base/file.h); bfloat16, which numpy does not know, is written as float32. For numpy.load.
void write_npy(const std::string& path, const HostTensor& tensor);
void write_npz(const std::string& path, const std::vector<NamedTensor>& tensors);

}  // namespace amp
