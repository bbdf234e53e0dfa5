// Transforms: what is done to an image between its file and the model, with torchvision's names, defaults and results.
// Each is one file in this folder with one row (docs/adding_a_transform.md); a pipeline (pipeline.h) is a text that
// names them.
//
// Those on pixels work on 8-bit images, as torchvision's do on PIL images; masks get the same geometry, by the nearest
// pixel. Those on numbers come after them, on floats of shape (C, H, W).
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
  std::vector<float> numbers = {};                     // (C, H, W), once they are made
  int64_t channels() const { return image.channels; }  // image keeps its size when its pixels have become numbers
};

// Low and high of what a pipeline's numbers can be.
struct NumberRange {
  double low = 0, high = 255;
};

class Transform {
 public:
  virtual ~Transform() = default;
  // Const and without state: any number of threads run it. What is left to chance comes from `draws` alone.
  virtual void apply(ImageSample& sample, Draws& draws) const = 0;
  virtual NumberRange range(NumberRange before) const { return before; }
};

// What makes pipelines of one size those of another.
struct SizeChange {
  ImageSize from, to;
  int64_t height(int64_t n) const;  // n of a side of `from`, as a share of `to`; at least 1
  int64_t width(int64_t n) const;
};
using TransformValues = std::map<std::string, std::string>;

enum class Stage : uint8_t { pixels, to_numbers, numbers };

struct TransformRow {
  std::string name;
  Stage stage = Stage::pixels;
  std::vector<std::string> parameters = {};  // in order: "size", or with a default "p=0.5"
  std::string what;                          // for people
  bool random = false;
  std::unique_ptr<Transform> (*make)(const Arguments& arguments);
  // Of one with a "size": the values that are others for another size. Null: the size, side by side.
  TransformValues (*sized)(const Arguments& arguments, const SizeChange& change) = nullptr;
};

// At namespace scope of the transform's file: `const TransformRegistration registered{{...}};`
struct TransformRegistration {
  TransformRegistration(TransformRow row);
};
template <class T>
std::unique_ptr<Transform> make_transform(const Arguments& arguments) {
  return std::make_unique<T>(arguments);
}

const std::vector<const TransformRow*>& transform_rows();  // by name

}  // namespace amp
