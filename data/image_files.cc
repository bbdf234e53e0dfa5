#include "data/image_files.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/fs.h"
#include "base/text.h"
#include "data/images/decoder.h"
#include "data/images/packed.h"
#include "data/table_builder.h"
#include "data/text_file.h"

namespace amp {

namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 16;  // folders in folders: links may go in circles

struct Found {
  std::vector<std::string> images;
  int64_t others = 0;  // files that are called otherwise
};

bool hidden(const std::string& name) { return name.starts_with('.'); }

void collect(const std::string& folder, int depth, Found& out) {
  if (depth > kDeepest)
    fail(Exit::data, "E_DATA_FOLDER", cat("'", printable(folder), "' lies ", kDeepest, " folders deep"),
         "is a link pointing at a folder that holds it?");
  std::vector<std::string> below;
  for (const std::string& name : list_dir(folder)) {
    if (hidden(name)) continue;
    const std::string path = folder + "/" + name;
    if (is_dir(path)) {
      below.push_back(path);
    } else if (has_image_extension(name)) {
      out.images.push_back(path);
    } else {
      ++out.others;
    }
  }
  for (const std::string& path : below) collect(path, depth + 1, out);
}

Found images_below(const std::string& folder) {
  Found out;
  collect(folder, 0, out);
  return out;
}

[[noreturn]] void no_images(const std::string& folder, int64_t others) {
  fail(Exit::data, "E_DATA_EMPTY",
       cat("'", printable(folder), "' holds no image",
           others ? cat("; ", others, others == 1 ? " file has another extension" : " files have other extensions")
                  : std::string()),
       cat("what is read: ", image_kinds()));
}

std::string trimmed(std::string folder) {  // "train/" is "train"
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return folder;
}

}  // namespace

Table class_folders(const std::string& given, const ImageColumns& columns) {
  const std::string folder = trimmed(given);
  TableBuilder out(folder);
  out.columns() = {columns.path, columns.label};
  int64_t loose = 0;
  std::string packed;  // a file of many images
  for (const std::string& name : list_dir(folder)) {
    if (hidden(name)) continue;
    if (!is_dir(folder + "/" + name)) {
      loose += has_image_extension(name);
      if (packed.empty() && packed_kind_of(name) && name.find("label") == std::string::npos) packed = name;
      continue;
    }
    const Found found = images_below(folder + "/" + name);
    if (found.images.empty()) no_images(folder + "/" + name, found.others);
    for (const std::string& path : found.images) {
      out.begin_file(path);
      out.add_text(path);
      out.add_text(name);
    }
  }
  if (out.rows() == 0 && !packed.empty())
    fail(Exit::data, "E_DATA_EMPTY", cat("'", printable(folder), "' holds no class folders, but files of many images"),
         cat("name the file of images itself: ", printable(folder), "/", printable(packed),
             "; labels are found beside it"));
  if (out.rows() == 0)
    fail(Exit::data, "E_DATA_EMPTY",
         cat("'", printable(folder), "' holds no class folders",
             loose ? cat(", but ", loose, loose == 1 ? " image" : " images") : std::string()),
         loose
             ? "put the images of each class into a folder of its name; or give a table with --image_column, or masks "
               "with --train_masks"
             : cat("a folder for each class with its images in it: ", image_kinds()));
  return out.finish();
}

Table masked_images(const std::string& given, const std::string& masks, const ImageColumns& columns) {
  const std::string folder = trimmed(given);
  const Found images = images_below(folder);
  if (images.images.empty()) no_images(folder, images.others);
  std::map<std::string, std::string> by_stem;
  for (const std::string& path : images_below(trimmed(masks)).images)
    by_stem[fs::path(path).lexically_relative(trimmed(masks)).replace_extension().string()] = path;
  TableBuilder out(folder);
  out.columns() = {columns.path, columns.label};
  for (const std::string& path : images.images) {
    const auto mask = by_stem.find(fs::path(path).lexically_relative(folder).replace_extension().string());
    if (mask == by_stem.end())
      fail(Exit::data, "E_MASK", cat("'", printable(path), "' has no mask in '", printable(masks), "'"),
           cat("a mask bears the name of its image; that folder holds ", by_stem.size(), " images"));
    out.begin_file(path);
    out.add_text(path);
    out.add_text(mask->second);
  }
  return out.finish();
}

Table images_named(const std::string& names, const ImageColumns& columns) {
  TableBuilder out(names);
  out.columns() = {columns.path};
  std::vector<std::string> files;
  for (const std::string& name : files_named(names)) {
    if (!is_dir(name)) {
      files.push_back(name);
      continue;
    }
    const Found found = images_below(trimmed(name));
    if (found.images.empty()) no_images(name, found.others);
    files.insert(files.end(), found.images.begin(), found.images.end());
  }
  for (const std::string& path : files) {
    out.begin_file(path);
    out.add_text(path);
  }
  return out.finish();
}

std::vector<std::string> image_paths(const Table& table, const std::string& column, const std::string& root) {
  const size_t c = table.column(column);
  std::vector<std::string> out;
  for (int64_t r = 0; r < table.rows(); ++r) {
    const std::string_view text = table.has(r, c) ? table.text(r, c) : std::string_view();
    if (text.empty())
      fail(Exit::data, "E_IMAGE_MISSING", cat(table.where(r), ": no path in column '", printable(column), "'"),
           "fill it in or remove the row");
    const bool listed = table.line(r) == 0;  // by a folder: the path leads there already
    const std::string& file = table.names()[static_cast<size_t>(table.file(r))];
    const fs::path base = !root.empty() ? fs::path(root) : fs::path(file).parent_path();
    out.push_back(listed ? std::string(text) : (base / fs::path(text)).string());
    if (listed || path_exists(out.back())) continue;
    fail(Exit::data, "E_IMAGE_MISSING", cat(table.where(r), ": there is no file '", printable(out.back()), "'"),
         "paths are looked for beside the table, or in --image_root FOLDER");
  }
  return out;
}

}  // namespace amp
