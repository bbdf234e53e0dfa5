// The steps of export_model(), on a copy of the file's proto.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "importer/read/doc.h"
#include "importer/write/export.h"

namespace amp {

struct Patched {
  onnx::ModelProto proto;
  // payloads of tensors of `proto` that are stored outside of it
  std::map<const onnx::TensorProto*, HostTensor> external;
};

// Returns a copy of the doc's proto with changed payloads replaced. values: index of a SourceValue -> its fp32 tensor,
// tied parameters included. float32: store a changed tensor of a 16-bit type as float32; the caller then converts the
// other tensors.
Patched patch_payloads(const ModelDoc& doc, const SourceGraph& graph, const std::map<int, HostTensor>& values,
                       bool float32 = false);

// Removes outputs that `graph` no longer has, with the nodes and initializers that only they need. Removes shapes that
// depend on a resized weight and declares the graph outputs again. Does nothing if the graph was not cut or resized.
void remove_cut(Patched& patched, const ModelDoc& doc, const SourceGraph& graph);

// Adds the nodes, initializers and outputs that surgery added to `graph`, and tensors that training separated from a
// shared one. Nodes of Place::training and Dropout are omitted.
// Added constants get an entry kAddedConstant (importer/read/doc.h).
void append_added(onnx::ModelProto& proto, const ModelDoc& doc, const SourceGraph& graph,
                  const std::map<int, HostTensor>& values);

// Returns every trained tensor under its parameter's index and under the indices of parameters tied to it (transposed
// if tied_transposed is set).
std::map<int, HostTensor> spread_ties(const SourceGraph& graph, const std::vector<TrainedTensor>& trained);

// Converts fp32 to `to`. Throws E_EXPORT_RANGE for finite values that become infinite in 16 bits.
HostTensor narrow(const HostTensor& value, DType to, const std::string& name);

}  // namespace amp
