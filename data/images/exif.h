// EXIF orientation of photos (JEITA CP-3451, tag 0x0112).
#pragma once

#include <string_view>

#include "data/images/image.h"

namespace amp {

// Reads the orientation from EXIF metadata (`block`: a TIFF structure, with or without leading "Exif\0\0"). Returns 1
// to 8; 1 (upright) if the metadata is not valid.
int exif_orientation(std::string_view block);

Image upright(Image image, int orientation);  // rotates and mirrors the image like Pillow's ImageOps.exif_transpose
ImageSize upright(ImageSize size, int orientation);

}  // namespace amp
