// How a camera held the picture: the orientation that EXIF records (JEITA CP-3451, tag 0x0112).
#pragma once

#include <string_view>

#include "data/images/image.h"

namespace amp {

// 1 to 8 from a TIFF block, with or without "Exif\0\0" before it; 1, upright, when it says nothing that makes sense.
int exif_orientation(std::string_view block);

Image upright(Image image, int orientation);  // as Pillow's ImageOps.exif_transpose
ImageSize upright(ImageSize size, int orientation);

}  // namespace amp
