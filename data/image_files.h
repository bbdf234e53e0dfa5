// Makes tables of image files, from the contents of folders or from the paths in a table. Errors have exit code 5.
#pragma once

#include <string>
#include <vector>

#include "data/table.h"

namespace amp {

struct ImageColumns {
  std::string path = "path", label = "label";
  // A class without images, or an image without a mask, becomes a note of the table instead of an error, so that a
  // report can list all problems.
  bool notes_faults = false;
};

// Returns a table of the images in folders that hold one folder per class (torchvision's ImageFolder). `folders` names
// one or several, as described in data/text_file.h. Columns: path and label. Classes and files are in the order of
// their names. Throws E_DATA_EMPTY for a folder without class folders or a class without images, and E_DATA_FOLDER for
// a folder that holds train/ and val/. The table's notes count the files that are left out.
Table class_folders(const std::string& folders, const ImageColumns& columns = {});

// Returns a table of the images in `folders` and the masks in `masks` that have the same name (without extension).
// Columns: path, and label with the mask's path. Several image folders need as many mask folders. Throws E_MASK for an
// image without a mask.
Table masked_images(const std::string& folders, const std::string& masks, const ImageColumns& columns = {});

// Returns a table of images without labels. `names`: files, or folders that are searched recursively. Column: path.
Table images_named(const std::string& names, const ImageColumns& columns = {});

// Returns the path of a row, or of all rows. Relative paths are resolved in `root`, or, if that is empty, in the
// table's folder. Throws E_IMAGE_MISSING with the row for a file that does not exist.
std::string image_path(const Table& table, int64_t row, const std::string& column, const std::string& root);
std::vector<std::string> image_paths(const Table& table, const std::string& column, const std::string& root);

}  // namespace amp
