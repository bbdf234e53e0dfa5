#include "run/data/mask_files.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "data/image_store.h"
#include "data/images/decoder.h"
#include "data/transforms/pipeline.h"
#include "data/transforms/resample.h"
#include "run/data/images.h"
#include "run/spec/images.h"

namespace amp {

namespace {

// Returns whether no transform crops or pads, so that masks correspond to whole images.
bool only_resizes(const ImageSpec& images) {
  const std::vector<ImageSize> sizes = image_sizes(images);
  const Pipeline pipeline(*images.eval_transforms);
  const std::vector<std::string> steps = split(sizes.empty() ? pipeline.text() : pipeline.text_for(sizes[0]), '|');
  return std::all_of(steps.begin(), steps.end(), [](std::string step) {
    step.erase(0, step.find_first_not_of(' '));
    for (const char* name : {"resize", "normalize", "to_", "none"}) {
      if (step.starts_with(name)) return true;
    }
    return false;
  });
}

}  // namespace

bool names_folder(const std::string& out) { return is_dir(out) || out.ends_with('/'); }

void write_masks(const std::string& folder, const ImageSpec& settings, const std::vector<std::string>& images,
                 const Predictions& predictions) {
  namespace fs = std::filesystem;
  ensure_dir(folder);
  const bool own_size = only_resizes(settings);
  const ImageStore store(own_size ? images : std::vector<std::string>());
  std::set<std::string> taken;
  for (size_t i = 0; i < images.size(); ++i) {
    Image mask = *predictions.mask(static_cast<int64_t>(i));
    if (own_size) {
      const Image image = store.read(images[i], 1);
      mask = resized(mask, image.height, image.width, Interpolation::nearest);
    }
    const std::vector<std::string>& values = *settings.mask_values;
    for (uint8_t& v : mask.data) {
      if (v < values.size()) v = static_cast<uint8_t>(std::stoi(values[v]));
    }
    const std::string stem = fs::path(images[i]).stem().string();
    std::string name = stem;
    for (int n = 2; !taken.insert(name).second; ++n) name = cat(stem, "_", n);
    FileWriter out((fs::path(folder) / (name + ".png")).string());
    out.write(encode_png(mask));
    out.commit();
  }
}

}  // namespace amp
