// Adds LoRA slots (importer/adapter/slots.h) to a file.
#pragma once

#include <onnx/onnx_pb.h>

#include <vector>

#include "importer/adapter/slots.h"
#include "importer/read/doc.h"

namespace amp {

// Adds two inputs with initializers of rank 0 for each site, and x A B to the outputs of its nodes. Sites that are in
// the file already are skipped. The sum takes over the name of the map's output, and the output of the map's node gets
// "/base" appended. Throws E_EXPORT_INNER (Exit::unsupported) for a map inside a local function or branch.
void add_slots(onnx::ModelProto& model, const ModelDoc& doc, const std::vector<AdapterSite>& sites);

}  // namespace amp
