// NumPy's .npy and .npz files. Format of .npy: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html;
// .npz is a zip archive (stored or deflated) of .npy files. Supported are C order, little-endian numbers and bool;
// pickled objects are not loaded.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/safetensors.h"

namespace amp {

// Called with a tensor's name, element type and shape before its elements are read; throws to refuse the file.
using TensorCheck = std::function<void(const std::string& name, DType dtype, const Dims& dims)>;

// Read a file. They throw E_DATA_NPY, naming member and field, or the errors of read_file(). The members of an archive
// may unpack to kMostGrowth times its size (base/limits.h), or to 64 MiB if that is more.
HostTensor read_npy(const std::string& path, Exit exit = Exit::data);
std::vector<NamedTensor> read_npz(const std::string& path, Exit exit = Exit::data,
                                  const TensorCheck& check = nullptr);  // the array in member "x.npy" gets the name "x"
// Read a file whose contents are already in memory. path: used in error messages. name: passed to `check`.
HostTensor parse_npy(const FileBytes& file, const std::string& path, Exit exit, const std::string& name = {},
                     const TensorCheck& check = nullptr);
std::vector<NamedTensor> parse_npz(const FileBytes& file, const std::string& path, Exit exit,
                                   const TensorCheck& check = nullptr);

// Read or write a file in the format of its extension: .safetensors (mapped if large), .npz, or .npy (one tensor, named
// after the file). Throw E_FILE_TYPE (Exit::usage) for other extensions.
std::vector<NamedTensor> read_tensor_file(const std::string& path, Exit exit = Exit::data,
                                          const TensorCheck& check = nullptr);
void write_tensor_file(const std::string& path, const std::vector<NamedTensor>& tensors);
void require_tensor_file(const std::string& path);  // checks only the extension; called before other work

// Write a file that numpy.load reads, atomically and durably (base/file.h). bfloat16, which numpy lacks, is written as
// float32.
void write_npy(const std::string& path, const HostTensor& tensor);
void write_npz(const std::string& path, const std::vector<NamedTensor>& tensors);

}  // namespace amp
