// What a file records about the origin of its tensors: initializer or Constant node, the names that the exporter
// merged, and PyTorch's own list of parameters and buffers, which its torch.export-based exporter leaves in metadata.
#pragma once

#include <string>
#include <vector>

#include "importer/read/build.h"

namespace amp {

enum class Recorded : uint8_t {
  nothing,
  parameter,  // an entry of named_parameters()
  buffer,     // a buffer or a tensor that the module holds beside its parameters
  folded,     // computed from a parameter by the exporter
  computed,   // computed from constants by the exporter, or written in the model's code
};

struct TensorRecord {
  Recorded kind = Recorded::nothing;
  std::string from;                // folded: the parameter
  bool from_buffers = false;       // computed: of buffers only
  bool initializer = false;        // else a Constant node or a fill
  std::vector<std::string> names;  // its own and those of Identity nodes that stand for it in the file
};

struct ExporterRecord {
  bool torch = false;             // written by PyTorch, or named as it does
  bool lists_parameters = false;  // the file's metadata say which tensors are parameters
  std::vector<TensorRecord> of;   // per SourceValue
};

ExporterRecord read_exporter_record(const Built& built, const ModelDoc& doc);

}  // namespace amp
