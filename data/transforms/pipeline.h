// Pipeline: transforms in sequence, written as a text such as
//   "resize 256 | center_crop 224 | normalize imagenet"
// Pixels become numbers by to_tensor unless a transform says otherwise. "none" and the empty text only do that.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/transforms/transform.h"

namespace amp {

class Pipeline {
 public:
  // Throws E_TRANSFORM (Exit::usage) for unknown names, values that do not fit, and pixel transforms after numbers.
  explicit Pipeline(const std::string& text);

  const std::string& text() const { return text_; }  // canonical
  // Returns the text for images of another size. Each size is scaled by the same factors that turn the last one into
  // `size`. If the last one is a shorter side, or there is none, the result is cropped at the center. The ratios of
  // random_resized_crop become relative to that of `size`.
  std::string text_for(ImageSize size) const;
  bool random() const { return random_; }
  NumberRange range() const;
  // Applies the transforms; the sample then has numbers. Errors: Exit::data.
  void apply(ImageSample& sample, Draws& draws) const;

 private:
  std::string text_;
  bool random_ = false;
  std::vector<std::unique_ptr<Transform>> steps_;
};

}  // namespace amp
