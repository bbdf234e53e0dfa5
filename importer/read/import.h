// importer: ONNX file -> SourceGraph, and trained weights back into the file. The only room that sees protobuf; this
// header does not.
//
// Errors: Exit::usage E_MODEL_OPEN (no such file), E_GLOB (a glob that matches nothing); Exit::model for files that
// are not ONNX, damaged or unsafe; Exit::unsupported for valid files whose element types or versions are not ours.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/source.h"
#include "importer/discover/layer_depths.h"
#include "importer/discover/verdict.h"

namespace amp {

struct ModelDoc;  // the file as read (importer/read/doc.h): what export_model patches

struct ImportOptions {
  bool tie_weights_auto = true;  // equal-valued matrices, transposed copies included, are one weight
  bool split_merged =
      true;  // a constant-valued tensor of several modules is a weight of each (importer/discover/merged.h)
  // Globs over whole names: the file's or the alias. `trainable` wins over `freeze`, so that
  // freeze={"*"}, trainable={"classifier*"} trains the classifier. A pattern with wildcards never turns one-element
  // constants or running statistics into parameters; an exact name does.
  std::vector<std::string> freeze, trainable;
  bool batchnorm_train = false;  // running statistics of BatchNormalization are state that training moves
  bool train_quantized = false;  // integer weights of DequantizeLinear train (importer/quantized/quantized_weights.h)
  bool straight_through = true;  // x + (f(x) - x) has the gradient of x (importer/quantized/straight_through.h)
  bool gradient_stops = false;   // name in the notes where gradients stop
  int64_t freeze_layers = -1;    // importer/discover/layers.h; -1: none, 0: what lies before the first layer
  bool find_layers = false;      // importer/discover/layer_depths.h
};

struct Imported {
  SourceGraph graph;
  std::shared_ptr<ModelDoc> doc;
  std::vector<std::string> notes;  // worth telling the user, each one line
  std::vector<Verdict> verdicts;   // per value as imported: why it is, or is not, a weight
  LayerDepths layers;              // empty unless asked for
};

Imported import_model(const std::string& path, const ImportOptions& options = {});

// Frees the memory of large parameters, once a Session (trainer/compile/session.h) holds their values: their tensors in the
// SourceGraph keep type and dims alone. export_model() takes such values from `trained`, so all must be among these.
void release_parameters(Imported& model);

// A metadata_props entry of the file; empty when there is none.
std::string model_metadata(const ModelDoc& doc, const std::string& key);

bool model_output(const ModelDoc& doc, const std::string& name);  // is it an output of the file?

std::string model_sha256(const std::string& path);  // of the .onnx file itself, without external data

}  // namespace amp
