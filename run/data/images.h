// Opens images: finds the files, the model's image input and the transforms between them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/image_dataset.h"
#include "data/table.h"
#include "graph/source.h"
#include "run/data/data.h"

namespace amp {

struct DataSpec;
struct ImageSpec;
struct RunSpec;

// A table with a column of paths (image_path_column()) and, if `labeled`, one of labels (--label_column), from class
// folders, image files, packed files (CIFAR, IDX) or a table of paths. Reads train_masks and train_labels of the spec.
Table read_image_table(const RunSpec& spec, const std::string& path, bool labeled = true);
std::string image_path_column(const ImageSpec& images);  // --image_column, else the default name
// Classes in the order in which packed files (CIFAR, IDX) number them; empty for other images.
std::vector<std::string> numbered_image_classes(const DataSpec& data, const std::string& path);

// The model's image input: the first one with four dimensions, or with three for gray images. The layout is that of
// --image_layout, else found by the dimension of 1 or 3 channels. E_IMAGE_INPUT (exit 5) if there is none.
ImageInput image_input(const ImageSpec& images, const SourceGraph& graph, const std::vector<InputSpec>& inputs);

std::vector<ImageSize> image_sizes(const ImageSpec& images);  // --image_sizes, largest first
// "192x256: 80, 256x192: 12": the number of images of each size.
std::string counts_of(std::span<const ImageSize> sizes, std::span<const int32_t> buckets);

// Replaces --transforms and --eval_transforms if they are auto: by the model's preprocessor_config.json, else by its
// input. Fills in --mask_values, and logs the result. E_IMAGE_SIZES (exit 2): the model does not take one of
// --image_sizes. needs: task, inputs, `labeled`, training, mask_classes.
RunSpec with_transforms(RunSpec spec, const SourceGraph& graph, const DataNeeds& needs, const Table& table,
                        const Log& log);

// Requires the spec of with_transforms(). Logs how many images each of --image_sizes has.
std::unique_ptr<Dataset> open_image_dataset(const RunSpec& spec, const Table& table, const SourceGraph& graph,
                                            const DataNeeds& needs);

}  // namespace amp
