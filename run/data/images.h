// Images as a run reads them: where they are, how the model's input takes them, what is done to them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/image_dataset.h"
#include "data/table.h"
#include "graph/source.h"
#include "run/data/data.h"
#include "run/spec/spec.h"

namespace amp {

// Columns path (--image_column) and, unless it is false, label (--label_column). spec.train_masks: the folder of masks;
// spec.train_labels: files of labels.
Table read_image_table(const RunSpec& spec, const std::string& path, bool labelled = true);
std::string image_path_column(const RunSpec& spec);
// Names of the classes by the numbers that files of many images (CIFAR, IDX) give them; empty for other images.
std::vector<std::string> numbered_image_classes(const RunSpec& spec, const std::string& path);

// The input that images are for: four dimensions of which one is 1 or 3 channels, or three and the images are grey.
// E_IMAGE_INPUT (exit 5) when there is none.
ImageInput image_input(const RunSpec& spec, const SourceGraph& graph, const std::vector<InputSpec>& inputs);

std::vector<ImageSize> image_sizes(const RunSpec& spec);  // --image_sizes, largest first
// "192x256: 80, 256x192: 12": how many go to each size.
std::string counts_of(std::span<const ImageSize> sizes, std::span<const int32_t> buckets);

// --transforms and --eval_transforms where they are auto, by the model's input, and --mask_values; told in one line.
// E_IMAGE_SIZES (exit 2) for one of --image_sizes that the model does not take.
// needs: task, inputs, labelled, training.
RunSpec with_transforms(RunSpec spec, const SourceGraph& graph, const DataNeeds& needs, const Table& table,
                        const Log& log);

// spec: with_transforms. How many images each of --image_sizes has is told.
std::unique_ptr<Dataset> open_image_dataset(const RunSpec& spec, const Table& table, const SourceGraph& graph,
                                            const DataNeeds& needs);

}  // namespace amp
