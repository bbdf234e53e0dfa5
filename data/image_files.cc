// Implements image_files.h: scans folders for images and builds Tables of paths and labels. Layouts: torchvision's
// ImageFolder (a folder per class) and two folders with images and masks of equal names. Files that are left out are
// counted in the table's notes; folders that hold train/ and val/ are refused.
#include "data/image_files.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/fs.h"
#include "base/number_text.h"
#include "base/text.h"
#include "data/images/decoder.h"
#include "data/images/packed.h"
#include "data/table_builder.h"
#include "data/text_file.h"

namespace amp {

namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 16;  // depth limit: symbolic links may form a cycle

struct Found {
  std::vector<std::string> images;
  std::map<std::string, int64_t> others;  // files that are not images, by extension
  std::string example;                    // the first file that is not an image

  void add_other(const std::string& path) {
    if (others.empty()) example = path;
    std::string extension = fs::path(path).extension().string();
    for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    ++others[extension];
  }
  int64_t other_files() const {
    return std::accumulate(others.begin(), others.end(), int64_t{0},
                           [](int64_t n, const auto& o) { return n + o.second; });
  }
  void add_others(const Found& f) {
    if (others.empty()) example = f.example;
    for (const auto& [extension, n] : f.others) others[extension] += n;
  }
};

bool hidden(const std::string& name) { return name.starts_with('.'); }

// Returns the names in a folder, sorted, each with a flag that is true for folders. On most file systems the listing
// itself contains the types of entries. Calling stat() for each of many images would take long.
std::vector<std::pair<std::string, bool>> list_types(const std::string& folder) {
  std::error_code failed, unknown;
  std::vector<std::pair<std::string, bool>> out;
  fs::directory_iterator at(folder, failed);
  for (; !failed && at != fs::directory_iterator(); at.increment(failed))
    out.emplace_back(at->path().filename(), at->is_directory(unknown));
  if (failed) list_dir(folder);  // throws the error
  std::sort(out.begin(), out.end());
  return out;
}

void collect(const std::string& folder, int depth, Found& out) {
  if (depth > kDeepest)
    fail(Exit::data, "E_DATA_FOLDER", cat("'", printable(folder), "' is nested ", kDeepest, " folders deep"),
         "does a link point to a folder that contains it?");
  std::vector<std::string> below;
  for (const auto& [name, is_folder] : list_types(folder)) {
    if (hidden(name)) continue;
    const std::string path = folder + "/" + name;
    if (is_folder) {
      below.push_back(path);
    } else if (has_image_extension(name)) {
      out.images.push_back(path);
    } else {
      out.add_other(path);
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

std::string trimmed(std::string folder) {  // removes the slash of "train/"
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return folder;
}

// Describes the files that were left out: "'train': 8 files are left out ...: 4 .heic, 4 .txt". Returns "" if there are
// none.
std::string left_out(const std::string& folder, const Found& found) {
  const int64_t n = found.other_files();
  if (n == 0) return {};
  std::vector<std::string> kinds;
  for (const auto& [extension, count] : found.others)
    kinds.push_back(cat(with_thousands(count), " ", extension.empty() ? "without extension" : printable(extension)));
  return cat("'", printable(folder), "': ", with_thousands(n), n == 1 ? " file is" : " files are",
             " left out, whose extensions name no image that is read: ", join(kinds, ", "), ", as '",
             printable(found.example), "' (read: ", image_kinds(), ")");
}

enum class Part { none, train, other };

// Returns the part of a data set (training, validation or test) that a folder's name denotes: train, Training, val2017,
// test_set.
Part part_of(const std::string& folder) {
  std::string name = lower_case(folder);
  while (!name.empty() && !std::isalpha(static_cast<unsigned char>(name.back()))) name.pop_back();
  for (const char* end : {"_set", "-set", "set", "_data", "-data", "_images", "-images"}) {
    if (name.ends_with(end)) name.resize(name.size() - std::strlen(end));
  }
  for (const char* train : {"train", "training", "trn"}) {
    if (name == train) return Part::train;
  }
  for (const char* other :
       {"val", "valid", "validation", "dev", "eval", "evaluation", "test", "testing", "tst", "holdout"}) {
    if (name == other) return Part::other;
  }
  return Part::none;
}

// Throws E_DATA_FOLDER for a folder that contains train/ and val/, because their names are not classes. With masks,
// training would use the images of both folders.
void refuse_parts(const std::string& folder, bool masks) {
  std::vector<std::string> parts;
  std::string train, other;
  bool others_only = true, nested = true;
  for (const std::string& name : list_dir(folder)) {
    const std::string path = folder + "/" + name;
    if (hidden(name) || !is_dir(path)) continue;
    const Part part = part_of(name);
    others_only = others_only && part != Part::none;
    if (part == Part::none) continue;
    parts.push_back(printable(name));
    std::string& first = part == Part::train ? train : other;
    if (first.empty() || name.starts_with('v')) first = path;  // the hint prefers val/ to test/
    for (const std::string& inner : list_dir(path)) nested = nested && !has_image_extension(inner);
  }
  if (train.empty() || other.empty() || !(others_only || nested || masks)) return;
  fail(Exit::data, "E_DATA_FOLDER",
       cat("'", printable(folder), "' holds ", join(parts, ", "), ": parts of a data set, whose names are no classes"),
       cat("`train` ", printable(train), " `val` ", printable(other),
           masks ? ", and so with `train_masks` and `val_masks`"
                 : "; if they are classes, give a table with `image_column`"));
}

}  // namespace

namespace {

// Adds the images of each class folder in `folder` as rows.
void add_class_folders(const std::string& folder, bool notes_faults, TableBuilder& out,
                       std::vector<std::string>& notes) {
  refuse_parts(folder, false);
  Found loose;
  std::string packed;  // a file that holds many images
  int64_t rows = 0;
  Found all;
  for (const std::string& name : list_dir(folder)) {
    if (hidden(name)) continue;
    const std::string path = folder + "/" + name;
    if (!is_dir(path)) {
      if (has_image_extension(name)) loose.images.push_back(path);
      if (packed.empty() && packed_kind_of(name) && name.find("label") == std::string::npos) packed = name;
      continue;
    }
    const Found found = images_below(path);
    if (found.images.empty()) {
      if (!notes_faults) no_images(path, found.other_files());
      notes.push_back(cat("'", printable(path), "': the class has no images"));
    }
    for (const std::string& image : found.images) {
      out.begin_file(image);
      out.add_text(image);
      out.add_text(name);
      ++rows;
    }
    all.add_others(found);
  }
  const auto n = static_cast<int64_t>(loose.images.size());
  if (rows == 0 && !packed.empty())
    fail(Exit::data, "E_DATA_EMPTY", cat("'", printable(folder), "' holds no class folders, but files of many images"),
         cat("name the file of images itself: ", printable(folder), "/", printable(packed),
             "; labels are found beside it"));
  if (rows == 0)
    fail(Exit::data, "E_DATA_EMPTY",
         cat("'", printable(folder), "' holds no class folders",
             n ? cat(", but ", n, n == 1 ? " image" : " images") : std::string()),
         n ? "put the images of each class into a folder of its name; or give a table with `image_column`, or masks "
             "with `train_masks`"
           : cat("a folder for each class with its images in it: ", image_kinds()));
  if (n)
    notes.push_back(cat("'", printable(folder), "': ", with_thousands(n), n == 1 ? " image is" : " images are",
                        " left out, in no class folder: the first is '", printable(loose.images[0]), "'"));
  if (const std::string note = left_out(folder, all); !note.empty()) notes.push_back(note);
}

void add_masked_images(const std::string& folder, const std::string& masks, bool notes_faults, TableBuilder& out,
                       std::vector<std::string>& notes) {
  refuse_parts(folder, true);
  const Found images = images_below(folder);
  if (images.images.empty()) no_images(folder, images.other_files());
  std::map<std::string, std::string> by_stem;
  for (const std::string& path : images_below(masks).images)
    by_stem[fs::path(path).lexically_relative(masks).replace_extension().string()] = path;
  const size_t known = by_stem.size();
  std::set<std::string> used;
  for (const std::string& path : images.images) {
    const auto mask = by_stem.find(fs::path(path).lexically_relative(folder).replace_extension().string());
    if (mask == by_stem.end()) {
      if (!notes_faults)
        fail(Exit::data, "E_MASK", cat("'", printable(path), "' has no mask in '", printable(masks), "'"),
             cat("a mask has the name of its image; that folder holds ", known, " images"));
      notes.push_back(cat("'", printable(path), "': it has no mask in '", printable(masks), "'"));
      continue;
    }
    out.begin_file(path);
    out.add_text(path);
    out.add_text(mask->second);
    used.insert(mask->first);
  }
  if (used.size() < known)
    notes.push_back(cat("'", printable(masks), "': ", with_thousands(static_cast<int64_t>(known - used.size())),
                        " masks have no image and are left out"));
  if (const std::string note = left_out(folder, images); !note.empty()) notes.push_back(note);
}

Table with_notes(TableBuilder& out, const std::vector<std::string>& notes) {
  Table table = out.finish();
  for (const std::string& note : notes) table.add_note(note);
  return table;
}

}  // namespace

Table class_folders(const std::string& names, const ImageColumns& columns) {
  TableBuilder out(trimmed(names));
  out.columns() = {columns.path, columns.label};
  std::vector<std::string> notes;
  for (const std::string& folder : files_named(names))
    add_class_folders(trimmed(folder), columns.notes_faults, out, notes);
  return with_notes(out, notes);
}

Table masked_images(const std::string& names, const std::string& mask_names, const ImageColumns& columns) {
  TableBuilder out(trimmed(names));
  out.columns() = {columns.path, columns.label};
  std::vector<std::string> notes;
  const std::vector<std::string> folders = files_named(names), masks = files_named(mask_names);
  if (folders.size() != masks.size())
    fail(Exit::usage, "E_MASK_FOLDERS",
         cat(folders.size(), " folders of images have ", masks.size(), masks.size() == 1 ? " folder" : " folders",
             " of masks"),
         "name a folder of masks for each, in the same order");
  for (size_t i = 0; i < folders.size(); ++i)
    add_masked_images(trimmed(folders[i]), trimmed(masks[i]), columns.notes_faults, out, notes);
  return with_notes(out, notes);
}

Table images_named(const std::string& names, const ImageColumns& columns) {
  TableBuilder out(names);
  out.columns() = {columns.path};
  std::vector<std::string> files, notes;
  for (const std::string& name : files_named(names)) {
    if (!is_dir(name)) {
      files.push_back(name);
      continue;
    }
    const Found found = images_below(trimmed(name));
    if (found.images.empty()) no_images(name, found.other_files());
    if (const std::string note = left_out(trimmed(name), found); !note.empty()) notes.push_back(note);
    files.insert(files.end(), found.images.begin(), found.images.end());
  }
  for (const std::string& path : files) {
    out.begin_file(path);
    out.add_text(path);
  }
  return with_notes(out, notes);
}

std::string image_path(const Table& table, int64_t row, const std::string& column, const std::string& root) {
  const size_t c = table.column(column);
  const std::string_view text = table.has(row, c) ? table.text(row, c) : std::string_view();
  if (text.empty())
    fail(Exit::data, "E_IMAGE_MISSING", cat(table.where(row), ": no path in column '", printable(column), "'"),
         "fill it in, remove the row, or skip such rows with `skip_bad_rows`");
  if (table.line(row) == 0) return std::string(text);  // listed from a folder: already a full path
  const std::string& file = table.names()[static_cast<size_t>(table.file(row))];
  const fs::path base = !root.empty() ? fs::path(root) : fs::path(file).parent_path();
  std::string path = (base / fs::path(text)).string();
  if (!path_exists(path))
    fail(Exit::data, "E_IMAGE_MISSING", cat(table.where(row), ": there is no file '", printable(path), "'"),
         "paths are relative to the table's folder, or to `image_root` FOLDER");
  return path;
}

std::vector<std::string> image_paths(const Table& table, const std::string& column, const std::string& root) {
  std::vector<std::string> out;
  for (int64_t r = 0; r < table.rows(); ++r) out.push_back(image_path(table, r, column, root));
  return out;
}

}  // namespace amp
