#include "run/data/image_notes.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/number_text.h"
#include "base/text.h"
#include "data/images/decoder.h"
#include "data/images/packed.h"

namespace amp {

namespace {

// largest number of files that are read, because reading all of them takes as long as an epoch
constexpr int64_t kLooks = 200;

bool may_hold_several(const std::string& path) {
  const std::string name = lower_case(path);
  return name.ends_with(".gif") || name.ends_with(".tif") || name.ends_with(".tiff");
}

struct ImageCount {
  int64_t looked = 0, found = 0;
  std::string example;

  template <class Holds>
  void look(const std::string& path, const Holds& holds) {
    if (looked == kLooks) return;
    ++looked;
    try {
      const FileBytes file = read_file(path, Exit::data);
      if (!holds(EncodedImage{file.text(), path})) return;
    } catch (const Error&) {
      return;  // the error is reported when the image is read
    }
    if (found++ == 0) example = path;
  }
  std::string text(const char* files) const {
    return cat(found, " of ", looked == kLooks ? "the first " : "", looked, " ", files, ", as '", printable(example),
               "',");
  }
};

}  // namespace

void log_image_notes(const std::vector<std::string>& paths, bool masks, const Log& log) {
  ImageCount several, turned;
  for (const std::string& path : paths) {
    if (packed_place(path)) continue;
    if (may_hold_several(path)) several.look(path, [](const EncodedImage& f) { return image_frames(f) > 1; });
    if (masks) turned.look(path, [](const EncodedImage& f) { return image_orientation(f) > 1; });
  }
  if (several.found)
    log.note(cat("images: ", several.text("GIF and TIFF files"), " hold several pictures: the first one is read"));
  if (turned.found)
    log.note(cat("images: ", turned.text("images"),
                 " are turned as their EXIF orientation says: their masks must be drawn for the turned pictures"));
}

}  // namespace amp
