// Transforms: changes of an image between its file and the model, with torchvision's names, defaults and results. Each
// transform is one file in this folder that registers itself (docs/adding_a_transform.md). A pipeline (pipeline.h) is a
// text with the names of transforms.
//
// Transforms of pixels work on 8-bit images, as torchvision's do on PIL images; masks get the same geometry by the
// nearest pixel. Transforms of numbers come after them and work on floats of shape (C, H, W).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/images/image.h"
#include "data/transforms/arguments.h"
#include "data/transforms/draws.h"

namespace amp {

struct ImageSample {
  Image image;
  std::optional<Mask> mask;
  std::vector<float> numbers = {};                     // (C, H, W); empty before to_tensor
  int64_t channels() const { return image.channels; }  // image keeps its size after conversion to numbers
};

// The range of values that a pipeline can produce.
struct NumberRange {
  double low = 0, high = 255;
};

class Transform {
 public:
  virtual ~Transform() = default;
  // Applies the transform. Called from several threads. All randomness comes from `draws`.
  virtual void apply(ImageSample& sample, Draws& draws) const = 0;
  virtual NumberRange range(NumberRange before) const { return before; }
};

// A change from one image size to another, for rewriting pipelines.
struct SizeChange {
  ImageSize from, to;
  int64_t height(int64_t n) const;  // n * to.height / from.height, rounded; at least 1
  int64_t width(int64_t n) const;
};
using TransformValues = std::map<std::string, std::string>;

enum class Stage : uint8_t { pixels, to_numbers, numbers };

struct TransformRow {
  std::string name;
  Stage stage = Stage::pixels;
  std::vector<std::string> parameters = {};  // names in order: "size", or "p=0.5" with a default
  std::string what;                          // description for messages
  bool random = false;
  std::unique_ptr<Transform> (*make)(const Arguments& arguments);
  // For a transform with "size": returns the values that change with the image size. Null: only "size" changes, and
  // height and width are scaled separately.
  TransformValues (*sized)(const Arguments& arguments, const SizeChange& change) = nullptr;
};

// Used at namespace scope of the transform's file: `const TransformRegistration registered{{...}};`
struct TransformRegistration {
  TransformRegistration(TransformRow row);
};
template <class T>
std::unique_ptr<Transform> make_transform(const Arguments& arguments) {
  return std::make_unique<T>(arguments);
}

const std::vector<const TransformRow*>& transform_rows();  // all transforms, sorted by name

}  // namespace amp
