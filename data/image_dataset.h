// Datasets of images, decoded and transformed when a batch is requested. Batches hold the same bits for any number of
// threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/labels.h"
#include "data/transforms/pipeline.h"

namespace amp {

// How a graph's input expects images.
struct ImageInput {
  enum class Layout : uint8_t { nchw, nhwc, nhw };
  std::string name;
  DType dtype = DType::f32;
  Layout layout = Layout::nchw;
  int64_t channels = 3;             // 1 or 3: color images are converted to gray and the reverse
  int64_t height = -1, width = -1;  // -1: any
  Dims dims(int64_t rows, int64_t h, int64_t w) const;
};

// The meaning of mask pixels.
struct MaskValues {
  std::vector<int64_t> values = {};  // pixel values of class 0, 1, ...; empty: a pixel's value is its class
  int64_t ignore = 255;              // ignored by the loss, unless listed in `values`; -1: none
};

struct ImageOptions {
  ImageInput input;
  std::string path_column, label_column;  // label_column empty: no labels
  std::string root;                       // base folder of relative paths; empty: the table's folder
  LabelForm labels = LabelForm::classes;  // classes, numbers, sets or masks
  ClassNames classes = {};                // class names, for labels that are classes or sets
  MaskValues masks = {};
  std::shared_ptr<const Pipeline> training, evaluation;
  // Buckets, largest first: each image goes to the size with the nearest aspect ratio and is transformed by
  // Pipeline::text_for(size). Empty: the pipelines' own size.
  std::vector<ImageSize> sizes = {};
  uint64_t seed = 42;
  int threads = 1;
};

// training: use the training transforms. inputs: the image, and labels of a model that computes its loss itself
// (data/text_dataset.h); other inputs throw E_DATA_INPUT.
std::unique_ptr<Dataset> make_image_dataset(const Table& table, const std::vector<InputSpec>& inputs,
                                            const ImageOptions& options, bool training);

// Reads a mask as class ids. Errors name the file.
Mask read_mask(const std::string& path, const MaskValues& values);

// Returns {0, 255} if the first masks are black and white, else an empty vector.
std::vector<int64_t> find_mask_values(const std::vector<std::string>& paths);

}  // namespace amp
