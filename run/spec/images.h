// ImageSpec: settings of images, masks and their transforms.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "run/spec/default.h"

namespace amp {

struct ImageSpec {
  Default<std::string> image_column{""};  // column with image paths; empty: tables contain text
  std::string image_root;                 // folder of the paths in a table; empty: the table's folder
  std::string train_masks, val_masks;     // folders with masks
  std::string train_labels, val_labels;   // label files of IDX images; empty: found beside the images
  Default<std::vector<std::string>> mask_values{{}};
  Default<int64_t> mask_ignore{255};
  Default<std::string> transforms{"auto"}, eval_transforms{"auto"};
  Default<std::vector<std::string>> image_sizes{{}};  // "192x256"; empty: the size of the transforms
  std::string image_layout = "auto";
  int64_t max_image_pixels = 0;  // 0: derived from the file (data/images/decoder.h)
  int64_t loading_threads = 0;   // 0: the number of compute threads
  double mixup = 0, cutmix = 0;  // alpha; 0: not used
  double mixup_prob = 1, mixup_switch_prob = 0.5;
  int64_t mixup_off_epoch = 0;
  // Not a setting: files that cannot be decoded, with the reason (run/data/bad_rows.h). Null: not examined.
  std::shared_ptr<const std::map<std::string, std::string>> unreadable = nullptr;
};

}  // namespace amp
