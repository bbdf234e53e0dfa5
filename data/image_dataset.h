// Images, decoded and transformed when a batch asks for them, as the input of a vision model. Batches hold the same
// bits for any number of threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/labels.h"
#include "data/transforms/pipeline.h"

namespace amp {

// How a graph's input takes images.
struct ImageInput {
  enum class Layout : uint8_t { nchw, nhwc, nhw };
  std::string name;
  DType dtype = DType::f32;
  Layout layout = Layout::nchw;
  int64_t channels = 3;             // 1 or 3: files in colours become grey, and the other way round
  int64_t height = -1, width = -1;  // -1: any
  Dims dims(int64_t rows, int64_t h, int64_t w) const;
};

// What the pixels of masks mean.
struct MaskValues {
  std::vector<int64_t> values = {};  // of class 0, 1, ...; empty: a pixel's value is its class
  int64_t ignore = 255;              // counts for nothing, unless it is one of `values`; -1: none
};

struct ImageOptions {
  ImageInput input;
  std::string path_column, label_column;  // label_column empty: no labels
  std::string root;                       // of paths in a table; empty: its own folder
  LabelForm labels = LabelForm::classes;  // classes, numbers, sets or masks
  ClassNames classes = {};                // of classes or sets
  MaskValues masks = {};
  std::shared_ptr<const Pipeline> training, evaluation;
  // Buckets, largest first: each image goes to the size nearest its aspect ratio, through the pipelines for that size
  // (Pipeline::text_for). Empty: all of the pipelines' own.
  std::vector<ImageSize> sizes = {};
  uint64_t seed = 42;
  int threads = 1;
};

// training: with the training's transforms. inputs: the image's, and labels of a model that computes its own loss
// (data/text_dataset.h); others: E_DATA_INPUT.
std::unique_ptr<Dataset> make_image_dataset(const Table& table, const std::vector<InputSpec>& inputs,
                                            const ImageOptions& options, bool training);

// Errors name the file.
Mask read_mask(const std::string& path, const MaskValues& values);

// {0, 255} when the first masks have no other values: black and white; else empty.
std::vector<int64_t> find_mask_values(const std::vector<std::string>& paths);

}  // namespace amp
