// The .onnx_adapter format of onnxruntime and onnxruntime-genai: named tensors, which replace inputs of a model that
// have initializers (slots). It is a FlatBuffer with the identifier TORT. The schema is that of onnxruntime's
// lora/adapter_format/adapter_schema.fbs:
//   table Parameter { name: string; dims: [int64]; data_type: TensorDataType (int32); raw_data: [uint8] (align 8); }
//   table Adapter { format_version: int; adapter_version: int; model_version: int; parameters: [Parameter]; }
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/safetensors.h"

namespace amp {

struct OnnxAdapter {
  // The writer's versions; onnxruntime does not compare them. This program stores base_checksum() as model_version.
  int32_t adapter_version = 1, model_version = 1;
  std::vector<NamedTensor> parameters;
};

// Reads an untrusted file: every offset, count, type and size is checked before it is used. Tensors share the file's
// bytes. Throws E_ADAPTER (Exit::data) for a file that is damaged, not of this format, or of another format version.
// Element types other than FLOAT, FLOAT16, BFLOAT16 and DOUBLE are also refused. read_onnx_adapter() also throws the
// errors of read_file().
OnnxAdapter parse_onnx_adapter(const FileBytes& file);
OnnxAdapter read_onnx_adapter(const std::string& path);

// Writes a file that depends only on names, types, shapes and values, in the order of `parameters`. Payloads are
// aligned to 64 bytes. The file is complete or absent (base/file.h). Throws E_ADAPTER_SIZE (Exit::unsupported) if it
// would have 2 GiB, the limit of FlatBuffers.
void write_onnx_adapter(const std::string& path, const OnnxAdapter& adapter);

}  // namespace amp
