// Writes trained weights back: the imported file with payloads replaced in place. Names, versions, metadata, dynamic
// axes, element types and doc strings stay; a tensor whose value did not change keeps its bytes, so an export without
// training equals the file that was imported. What training appended to the SourceGraph (nodes and values beyond the
// doc's own: the head) is added as ONNX nodes and initializers, and its graph outputs behind the file's own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "importer/read/import.h"
#include "importer/surgery/raw_rows.h"

namespace amp {

struct TrainedTensor {
  int source_value = -1;  // a parameter of the SourceGraph, by preference the one that others are tied to
  HostTensor value;       // fp32, with the parameter's dims
};

struct ExportOptions {
  // file: as the file has it; fp32: without 16-bit types (importer/write/widen.h); fp16: everything (importer/write/half.h); mixed:
  // nodes whose `compute` is a 16-bit type.
  std::string precision = "file";
  std::vector<DType> compute;                   // by node of the SourceGraph; for mixed
  std::vector<char> wide;                       // by node of the SourceGraph; for fp16: it stays float32
  std::map<std::string, std::string> metadata;  // metadata_props to set; to take away where empty
  bool keep_refused = false;                    // a file that the ONNX checker refuses is written, with a note
  bool inference_form = false;  // nodes in training form become inference form (importer/write/inference_form.h)
  std::optional<RawRows> raw_rows = {};  // in front of the model; for fp32
  int64_t inline_limit = INT32_MAX;      // a larger file keeps its tensors in "<path>.data"
};

struct ExportReport {
  std::vector<std::string> notes;
};

// The file appears whole or not at all (written aside, checked by the ONNX checker with shape inference, renamed).
// Tensors that the imported file keeps outside go to "<path>.data", never to a name that the file chose.
// Exit::storage E_WRITE; Exit::numerical E_EXPORT_RANGE: a weight beyond fp16's range; Exit::unsupported
// E_EXPORT_INNER: the head reads a value inside a local function or branch; E_EXPORT_FP16; Exit::internal
// E_EXPORT_CHECK.
ExportReport export_model(const ModelDoc& doc, const SourceGraph& graph, const std::vector<TrainedTensor>& trained,
                          const ExportOptions& options, const std::string& path);

}  // namespace amp
