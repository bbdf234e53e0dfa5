// Pipeline: transforms in sequence, written as a text such as
//   "resize 256 | center_crop 224 | normalize imagenet"
// If no transform converts pixels to numbers, to_tensor does. "none" and the empty text have only this conversion.
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

  const std::string& text() const { return text_; }  // the pipeline's text in canonical form
  // Returns the text for images of another size. All sizes in the text are scaled by the factors that turn the last of
  // them into `size`. If the last size is a shorter side, or the text has no size, the result is cropped at the center.
  // The ratios of random_resized_crop are scaled as well.
  std::string text_for(ImageSize size) const;
  bool random() const { return random_; }
  NumberRange range() const;
  // Applies the transforms; the sample then has numbers. Throws errors with Exit::data.
  void apply(ImageSample& sample, Draws& draws) const;

 private:
  std::string text_;
  bool random_ = false;
  std::vector<std::unique_ptr<Transform>> steps_;
};

}  // namespace amp
