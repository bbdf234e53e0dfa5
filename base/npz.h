// NumPy's .npy and .npz files. Format of .npy: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html;
// .npz is a zip archive (stored or deflated) of .npy files. Supported are C order, little-endian numbers and bool;
// pickled objects are not loaded.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/safetensors.h"

namespace amp {

// Errors: E_DATA_NPY with `exit`, naming member and field; E_FILE_MISSING, E_FILE_READ.
HostTensor read_npy(const std::string& path, Exit exit = Exit::data);
std::vector<NamedTensor> read_npz(const std::string& path, Exit exit = Exit::data);  // "x.npy" is named "x"

// By extension: .safetensors (mapped if large), .npz, or .npy (one tensor named after the file). Other extensions:
// Exit::usage E_FILE_TYPE.
std::vector<NamedTensor> read_tensor_file(const std::string& path, Exit exit = Exit::data);
void write_tensor_file(const std::string& path, const std::vector<NamedTensor>& tensors);
void require_tensor_file(const std::string& path);  // only checks the extension, before anything is computed

// Atomic and durable (base/file.h), readable by numpy.load. numpy has no bfloat16, so it is written as float32.
void write_npy(const std::string& path, const HostTensor& tensor);
void write_npz(const std::string& path, const std::vector<NamedTensor>& tensors);

}  // namespace amp
