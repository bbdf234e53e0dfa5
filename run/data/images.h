// Opens images: finds the files, the model's image input and the transforms between them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/image_dataset.h"
#include "data/table.h"
#include "graph/source.h"
#include "run/data/data_needs.h"

namespace amp {

struct DataSpec;
struct ImageSpec;
struct RunSpec;

// Returns a table with a column of paths (image_path_column()) and, if `labeled`, a column of labels (`label_column`).
// `path` names class folders, image files, packed files (CIFAR, IDX) or a table of paths. Uses the settings train_masks
// and train_labels. notes_faults: that of ImageColumns.
Table read_image_table(const RunSpec& spec, const std::string& path, bool labeled = true, bool notes_faults = false);
std::string image_path_column(const ImageSpec& images);  // `image_column`, else the default name
// Returns the classes in the order in which packed files (CIFAR, IDX) number them; empty for other images.
std::vector<std::string> numbered_image_classes(const DataSpec& data, const std::string& path);

std::vector<ImageSize> image_sizes(const ImageSpec& images);  // `image_sizes`, largest first
// Formats the number of images of each size: "192x256: 80, 256x192: 12".
std::string counts_of(std::span<const ImageSize> sizes, std::span<const int32_t> buckets);

// Replaces `transforms` and `eval_transforms` where they are auto: by the model's preprocessor_config.json, else by
// guess_transforms(). Fills in `mask_values`. Logs the result. Uses the members task, inputs, labeled, training and
// mask_classes of `needs`. Throws E_IMAGE_SIZES (Exit::usage) if the model does not take one of `image_sizes`.
RunSpec with_transforms(RunSpec spec, const SourceGraph& graph, const DataNeeds& needs, const Table& table,
                        const Log& log);

// Opens the images as a dataset. `spec` must come from with_transforms(). Logs how many images each of `image_sizes`
// has.
std::unique_ptr<Dataset> open_image_dataset(const RunSpec& spec, const Table& table, const SourceGraph& graph,
                                            const DataNeeds& needs);

}  // namespace amp
