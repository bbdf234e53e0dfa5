// Image files as tables: what folders hold, and where the paths of a table lead. Errors: exit 5.
#pragma once

#include <string>
#include <vector>

#include "data/table.h"

namespace amp {

struct ImageColumns {
  std::string path = "path", label = "label";
};

// A folder of folders, one a class (torchvision's ImageFolder), or several such folders (data/text_file.h): columns
// path and label, classes and files in the order of their names. E_DATA_EMPTY for a folder without class folders, or a
// class without an image; E_DATA_FOLDER for one that holds train/ and val/. The table's notes count the files that are
// left out.
Table class_folders(const std::string& folders, const ImageColumns& columns = {});

// Images and the masks of the same names (without extension) in two folders: columns path and label, the mask's path.
// Several folders of images have as many of masks. E_MASK for an image without a mask.
Table masked_images(const std::string& folders, const std::string& masks, const ImageColumns& columns = {});

// Images alone: one file, several or a folder with those below it: column path.
Table images_named(const std::string& names, const ImageColumns& columns = {});

// The paths in a column, as files: those that do not begin at the root lie in `root`, or in the table's own folder when
// that is empty. E_IMAGE_MISSING, with the row, for one that is not there.
std::vector<std::string> image_paths(const Table& table, const std::string& column, const std::string& root);

}  // namespace amp
