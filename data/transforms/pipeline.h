// A pipeline: transforms one after the other, as a text such as
//   "resize 256 | center_crop 224 | normalize imagenet"
// Pixels become numbers (to_tensor) where nothing says so. "none" and the empty text do that alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/transforms/transform.h"

namespace amp {

class Pipeline {
 public:
  // Exit::usage, E_TRANSFORM: a name that no row has, values that do not fit, pixels after numbers.
  explicit Pipeline(const std::string& text);

  const std::string& text() const { return text_; }  // canonical
  // For images that shall have another size: each size is scaled as the last one is, which becomes `size`. Where that
  // is a shorter side, or there is none, what is beyond is cut off around the middle. The ratios of
  // random_resized_crop become relative to that of `size`.
  std::string text_for(ImageSize size) const;
  bool random() const { return random_; }
  NumberRange range() const;
  // Errors: Exit::data. The result has numbers.
  void apply(ImageSample& sample, Draws& draws) const;

 private:
  std::string text_;
  bool random_ = false;
  std::vector<std::unique_ptr<Transform>> steps_;
};

}  // namespace amp
