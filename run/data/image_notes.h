// Notes about image files before they are used.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"

namespace amp {

// Logs how many GIF and TIFF files hold several pictures, of which only the first is read. With `masks`, also logs how
// many images are rotated by their EXIF orientation. Reads a bounded number of files.
void log_image_notes(const std::vector<std::string>& paths, bool masks, const Log& log);

}  // namespace amp
