// Implements torchvision's Normalize: (x - mean) / std per channel, with the statistics of common datasets by name.
#include <algorithm>

#include "base/error.h"
#include "data/transforms/transform.h"

namespace amp {

namespace {

struct Statistics {
  const char* name;
  std::vector<double> mean, deviation;
};

const std::vector<Statistics>& known() {
  static const std::vector<Statistics> all = {
      {"imagenet", {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}},
      {"inception", {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}},
      {"clip", {0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711}},
      {"cifar10", {0.4914, 0.4822, 0.4465}, {0.247, 0.2435, 0.2616}},
      {"mnist", {0.1307}, {0.3081}},
  };
  return all;
}

class Normalize final : public Transform {
 public:
  explicit Normalize(const Arguments& a) {
    std::vector<double> mean, deviation;
    if (a.is_word("mean")) {
      const auto it =
          std::find_if(known().begin(), known().end(), [&](const Statistics& s) { return s.name == a.text("mean"); });
      if (it == known().end()) a.refuse("mean", "imagenet, inception, clip, cifar10, mnist or numbers");
      mean = it->mean;
      deviation = it->deviation;
      if (a.has("std")) a.refuse("std", cat("wanted: '", it->name, "' has its own"));
    } else {
      mean = a.numbers("mean");
      if (!a.has("std"))
        fail(Exit::usage, "E_TRANSFORM", "transform normalize needs mean and std", "normalize mean=0.5 std=0.5");
      deviation = a.numbers("std");
    }
    const bool zero = std::any_of(deviation.begin(), deviation.end(), [](double v) { return !(v > 0); });
    if (zero || deviation.size() != mean.size()) a.refuse("std", "as many numbers above 0 as mean has");
    mean_.assign(mean.begin(), mean.end());
    deviation_.assign(deviation.begin(), deviation.end());
  }

  void apply(ImageSample& s, Draws&) const override {
    const auto channels = static_cast<size_t>(s.channels()), pixels = s.numbers.size() / channels;
    if (mean_.size() != 1 && mean_.size() != channels)
      fail(Exit::data, "E_IMAGE_CHANNELS",
           cat("normalize has ", mean_.size(), " means, the model takes ", channels, " channel",
               channels > 1 ? "s" : ""),
           "give as many numbers as there are channels, or one for all");
    for (size_t c = 0; c < channels; ++c) {
      const float mean = mean_[mean_.size() == 1 ? 0 : c], deviation = deviation_[deviation_.size() == 1 ? 0 : c];
      float* const x = s.numbers.data() + c * pixels;
      for (size_t i = 0; i < pixels; ++i) x[i] = (x[i] - mean) / deviation;
    }
  }

  NumberRange range(NumberRange before) const override {
    NumberRange out{1e300, -1e300};
    for (size_t c = 0; c < mean_.size(); ++c) {
      out.low = std::min(out.low, (before.low - mean_[c]) / deviation_[c]);
      out.high = std::max(out.high, (before.high - mean_[c]) / deviation_[c]);
    }
    return out;
  }

 private:
  std::vector<float> mean_, deviation_;
};

const TransformRegistration normalize_row{{.name = "normalize",
                                           .stage = Stage::numbers,
                                           .parameters = {"mean", "std="},
                                           .what = "(x - mean) / std by channel; imagenet, ... by name",
                                           .make = make_transform<Normalize>}};

}  // namespace

}  // namespace amp
