// Imports an ONNX file as a SourceGraph. importer/ is the only module that includes protobuf headers; this header does
// not.
//
// Errors: Exit::usage E_MODEL_OPEN (no such file), E_GLOB (a glob that matches nothing); Exit::model for files that are
// not ONNX, damaged or unsafe; Exit::unsupported for valid files whose element types or versions are not supported.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/source.h"
#include "importer/adapter/slots.h"
#include "importer/discover/layer_depths.h"
#include "importer/discover/verdict.h"
#include "importer/surgery/decoder_caches.h"

namespace amp {

struct ModelDoc;  // the parsed file (importer/read/doc.h), which export_model() patches

// Inputs of a decoder that only inference with a key/value cache needs (importer/surgery/pasts.h).
struct PastOptions {
  bool empty = true;               // the caches have 0 positions; false: the data feed them
  bool generates = false;          // for text generation, which feeds the caches if it can; only notes differ
  int64_t head_size = -1;          // elements of a head, for caches whose last dimension is open; -1: unknown
  std::vector<std::string> names;  // names of the caches in the folder's configuration, with %d for the layer
};

struct ImportOptions {
  bool tie_weights_auto = true;  // matrices of equal values, or of transposed equal values, are one weight
  // a constant-valued tensor that several modules read becomes one weight per module (importer/discover/merged.h)
  bool split_merged = true;
  // Globs that match whole names: the file's name or the alias. `trainable` wins over `freeze`, so that freeze={"*"},
  // trainable={"classifier*"} trains the classifier. A pattern with wildcards does not turn one-element constants or
  // running statistics into parameters; an exact name does.
  std::vector<std::string> freeze, trainable;
  bool batchnorm_train = false;  // running statistics of BatchNormalization are updated by training
  // integer weights of DequantizeLinear are trained (importer/quantized/quantized_weights.h)
  bool train_quantized = false;
  bool straight_through = true;  // x + (f(x) - x) has the gradient of x (importer/quantized/straight_through.h)
  bool gradient_stops = false;   // add notes that name the nodes where gradients stop
  // number of frozen layers (importer/discover/layers.h); -1: none, 0: only what precedes the first layer
  int64_t freeze_layers = -1;
  bool find_layers = false;  // sets Imported::layers (importer/discover/layer_depths.h)
  PastOptions past;
};

struct Imported {
  SourceGraph graph;
  std::shared_ptr<ModelDoc> doc;
  std::vector<std::string> notes;  // messages for the user, one line each
  std::vector<Verdict> verdicts;   // per value as imported: why it is a weight or not
  LayerDepths layers;              // empty unless ImportOptions::find_layers
  std::vector<FoundSlot> slots;    // LoRA slots of the file, which the graph does not have
  DecoderCaches caches;            // caches that are constants without positions in the graph
};

Imported import_model(const std::string& path, const ImportOptions& options = {});

// Frees the memory of large parameters after a Session (trainer/compile/session.h) has copied them. Their tensors in
// the SourceGraph keep only type and dims. export_model() then requires all of these values in `trained`.
void release_parameters(Imported& model);

// Returns a metadata_props entry of the file; empty if there is none.
std::string model_metadata(const ModelDoc& doc, const std::string& key);

bool model_output(const ModelDoc& doc, const std::string& name);  // true if the file has an output of this name

std::string model_sha256(const std::string& path);  // hashes the .onnx file, without external data

}  // namespace amp
