// The safetensors format: an 8-byte little-endian header length, a JSON header {"name": {"dtype", "shape",
// "data_offsets"}}, then the tensors' bytes without gaps. https://github.com/huggingface/safetensors
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/host_tensor.h"

namespace amp {

struct NamedTensor {
  std::string name;
  HostTensor tensor;
};

// Returns the tensor of that name; null if there is none.
const HostTensor* find_tensor(const std::vector<NamedTensor>& tensors, const std::string& name);

struct SafeTensors {
  std::vector<NamedTensor> tensors;             // in file order
  std::map<std::string, std::string> metadata;  // the entries of the key "__metadata__"
  const HostTensor* find(const std::string& name) const { return find_tensor(tensors, name); }
};

// Reads a file. Header, names, types, shapes and gapless offsets are checked before a tensor is created. Throws
// E_SAFETENSORS or E_DATA_FILE, or E_CKPT_TENSORS or E_CKPT_FILE with Exit::checkpoint.
SafeTensors read_safetensors(const std::string& path, Exit exit = Exit::data);
SafeTensors parse_safetensors(const FileBytes& file, Exit exit = Exit::data);  // the tensors are views of file.bytes
SafeTensors parse_safetensors(const FileBytes& file, const std::string& path, Exit exit);  // path: for error messages

// Writes a file that depends only on names, types, shapes and values. Tensors are ordered as by the reference
// implementation: wide types first, then by name. `sink` receives consecutive pieces of the file.
using ByteSink = std::function<void(const void* bytes, int64_t size)>;
void write_safetensors(const ByteSink& sink, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});
void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});  // atomic, durable (base/file.h)

}  // namespace amp
