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

// The form in which a graph input expects images.
struct ImageInput {
  enum class Layout : uint8_t { nchw, nhwc, nhw };
  std::string name;
  DType dtype = DType::f32;
  Layout layout = Layout::nchw;
  int64_t channels = 3;             // 1 (gray) or 3 (RGB); images are converted to this number of channels
  int64_t height = -1, width = -1;  // -1: any
  Dims dims(int64_t rows, int64_t h, int64_t w) const;
};

// Maps the pixel values of a mask to classes.
struct MaskValues {
  std::vector<int64_t> values = {};  // pixel values of class 0, 1, ...; empty: a pixel's value is its class
  int64_t ignore = 255;              // pixel value that the loss ignores, unless it is in `values`; -1: none
};

struct ImageOptions {
  ImageInput input;
  std::string path_column, label_column;  // label_column empty: no labels
  std::string root;                       // base folder of relative paths; empty: the table's folder
  LabelForm labels = LabelForm::classes;  // classes, numbers, sets or masks
  ClassNames classes = {};                // class names, for labels that are classes or sets
  MaskValues masks = {};
  std::shared_ptr<const Pipeline> training, evaluation;
  // Sizes of the buckets, largest first. Each image is assigned to the size with the nearest aspect ratio and
  // transformed by the pipeline that Pipeline::text_for(size) describes. Empty: no buckets; the pipelines determine the
  // size.
  std::vector<ImageSize> sizes = {};
  uint64_t seed = 42;
  int threads = 1;
};

// Makes a dataset of the images that the table names. training: use the training transforms. inputs: the inputs of the
// graph. Apart from options.input they must be label inputs (TextRole::label in data/text_dataset.h), which are fed
// with the labels; any other input throws E_DATA_INPUT.
std::unique_ptr<Dataset> make_image_dataset(const Table& table, const std::vector<InputSpec>& inputs,
                                            const ImageOptions& options, bool training);

// Reads a mask and returns the class of each pixel, or kNoClass for ignored pixels. Throws E_MASK with the file for a
// pixel value that is not a class.
Mask read_mask(const std::string& path, const MaskValues& values);

// Returns {0, 255} if the first 32 masks contain 255 and no value between 0 and 255, else an empty vector.
std::vector<int64_t> find_mask_values(const std::vector<std::string>& paths);

}  // namespace amp
