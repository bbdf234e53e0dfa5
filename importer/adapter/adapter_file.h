// A low-rank adapter from a file of any supported format: A, B and their factor for each module.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "importer/adapter/peft_folder.h"

namespace amp {

struct LoadedModule {
  std::string name;      // the module's name in the file, without the names of its tensors
  HostTensor a, b;       // fp32: A [in, r] and B [r, out]; the weight gets scale A B
  HostTensor magnitude;  // fp32 [out] for DoRA, else null
  double alpha = 0;      // scale is alpha / r, or alpha / sqrt(r) if rslora
  int64_t rank() const { return a.dims()[1]; }
};

struct LoadedAdapter {
  std::vector<LoadedModule> modules;
  bool rslora = false, dora = false;
  bool scaled = false;              // B includes the factor of the map's node, too (.onnx_adapter)
  int32_t base_sum = 0;             // base_checksum() of the model on which the adapter was trained; 0: unknown
  std::optional<PeftAdapter> peft;  // the folder's settings, if the adapter is a PEFT folder
};

// Reads a PEFT folder, an .onnx_adapter file, or a folder that contains one of them, such as a run's folder. Throws
// E_ADAPTER_PATH (Exit::usage) for other paths, E_ADAPTER_FIT (Exit::data) for an .onnx_adapter with tensors that are
// not pairs of lora_A [in, r] and lora_B [r, out], or with values that are not finite; and the errors of
// read_onnx_adapter() and read_peft_folder().
LoadedAdapter read_adapter(const std::string& path);

// Returns the files that read_adapter() reads, for checksums.
std::vector<std::string> adapter_files(const std::string& path);

}  // namespace amp
