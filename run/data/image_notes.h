// What is worth a line about image files before they are used.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"

namespace amp {

// Notes how many GIF and TIFF files hold several pictures, of which the first is read; and with masks, how many images
// are turned by their EXIF orientation. Looks at a bounded number of files.
void tell_images(const std::vector<std::string>& paths, bool masks, const Log& log);

}  // namespace amp
