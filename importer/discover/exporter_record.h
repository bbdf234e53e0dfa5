// Metadata in a file about the origin of its tensors: initializer or Constant node, the names that the exporter merged,
// and PyTorch's list of parameters and buffers, which the torch.export-based exporter writes.
#pragma once

#include <string>
#include <vector>

#include "importer/read/build.h"

namespace amp {

enum class Recorded : uint8_t {
  nothing,
  parameter,  // an entry of named_parameters()
  buffer,     // a buffer, another tensor attribute of the module, or a constant that this program added and marked
  folded,     // computed from a parameter by the exporter
  computed,   // computed by the exporter from constants, or written in the model's code
};

struct TensorRecord {
  Recorded kind = Recorded::nothing;
  std::string from;                // the parameter that a folded tensor was computed from
  bool from_buffers = false;       // a computed tensor was computed only from buffers
  bool initializer = false;        // false: a Constant or ConstantOfShape node
  std::vector<std::string> names;  // the tensor's name and the names of Identity nodes that read it in the file
};

struct ExporterRecord {
  bool torch = false;             // written by PyTorch, or named in its style
  bool lists_parameters = false;  // the file's metadata list the parameters
  std::vector<TensorRecord> of;   // one per SourceValue
};

ExporterRecord read_exporter_record(const Built& built, const ModelDoc& doc);

}  // namespace amp
