// Writes trained weights into a copy of the imported file. Names, versions, metadata, dynamic axes, element types and
// doc strings are kept. A tensor whose value did not change keeps its bytes, so an export without training equals the
// imported file. Nodes and values that surgery added to the SourceGraph (the head) are added as ONNX nodes and
// initializers; their graph outputs follow the file's outputs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "importer/adapter/slots.h"
#include "importer/read/import.h"
#include "importer/surgery/raw_rows.h"

namespace amp {

struct TrainedTensor {
  int source_value = -1;  // a parameter of the SourceGraph, preferably the master of tied parameters
  HostTensor value;       // fp32, with the parameter's dims
};

struct ExportOptions {
  // One of: "file" keeps the file's types; "fp32" removes 16-bit types (importer/write/widen.h); "fp16" computes all
  // nodes in 16 bits (importer/write/half.h); "mixed" computes the nodes whose `compute` is a 16-bit type in 16 bits.
  std::string precision = "file";
  std::vector<DType> compute;                   // type of each node of the SourceGraph; used by mixed
  std::vector<char> wide;                       // indexed by node of the SourceGraph: 1 if it stays float32 with fp16
  std::map<std::string, std::string> metadata;  // metadata_props to set; an empty value removes the entry
  bool keep_refused = false;                    // write a file that the ONNX checker rejects, with a note
  bool inference_form = false;                  // convert nodes in training form (importer/write/inference_form.h)
  std::optional<RawRows> raw_rows = {};         // preprocessing added before the model's inputs; requires fp32
  std::vector<AdapterSite> slots = {};          // maps that get LoRA slots; requires precision "file"
  int64_t inline_limit = INT32_MAX;             // a larger file stores its tensors in "<path>.data"
};

struct ExportReport {
  std::vector<std::string> notes;
};

// Exports to `path`. The file is written completely or not at all: to a temporary path, checked by the ONNX checker
// with shape inference, then renamed. Tensors that the imported file stores externally are written to "<path>.data",
// regardless of the names in the file. Throws:
//   E_WRITE (Exit::storage)
//   E_EXPORT_RANGE (Exit::numerical) if a weight is beyond fp16's range
//   E_EXPORT_INNER (Exit::unsupported) if the head reads a value inside a local function or branch
//   E_EXPORT_FP16 (Exit::unsupported), see importer/write/half.h
//   E_EXPORT_CHECK if the checker rejects the file; Exit::model if a classifier was resized, else Exit::internal
ExportReport export_model(const ModelDoc& doc, const SourceGraph& graph, const std::vector<TrainedTensor>& trained,
                          const ExportOptions& options, const std::string& path);

}  // namespace amp
