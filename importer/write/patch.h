// The steps of export_model() on a copy of the file's proto.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "importer/read/doc.h"
#include "importer/write/export.h"

namespace amp {

struct Patched {
  onnx::ModelProto proto;
  std::map<const onnx::TensorProto*, HostTensor> external;  // tensors of `proto` whose payload is not in it
};

// The doc's proto with changed payloads replaced. values: SourceValue -> its fp32 value, ties included. float32: a
// changed tensor of a 16-bit type is stored as float32 (the caller converts the others).
Patched patch_payloads(const ModelDoc& doc, const SourceGraph& graph, const std::map<int, HostTensor>& values,
                       bool float32 = false);

// Removes outputs of the file that `graph` no longer has, with the nodes and initializers that only served them;
// forgets the shapes of what a resized weight feeds and states its graph outputs anew. Does nothing to an untouched
// graph.
void remove_cut(Patched& patched, const ModelDoc& doc, const SourceGraph& graph);

// The nodes, initializers and outputs that surgery added to `graph`, and tensors that training separated from a shared
// one; nodes of Place::training and Dropout are left out.
void append_added(onnx::ModelProto& proto, const ModelDoc& doc, const SourceGraph& graph,
                  const std::map<int, HostTensor>& values);

// Every trained value under its own index and under those tied to it, in each one's layout.
std::map<int, HostTensor> spread_ties(const SourceGraph& graph, const std::vector<TrainedTensor>& trained);

// fp32 -> to, refusing finite values that 16 bits make infinite (E_EXPORT_RANGE).
HostTensor narrow(const HostTensor& value, DType to, const std::string& name);

}  // namespace amp
