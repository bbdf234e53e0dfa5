// `check_data` for images: decodes all files on all cores, then reports unreadable files, masks of another size than
// their image, sizes and labels. Duplicates are files with equal size and CRC-32C. Unlike in training, one bad file
// does not end the check.

#include "run/check/check_images.h"

#include <algorithm>
#include <limits>
#include <set>
#include <thread>
#include <unordered_map>

#include "base/activity.h"
#include "base/checksum.h"
#include "base/file.h"
#include "base/text.h"
#include "data/image_dataset.h"
#include "data/image_files.h"
#include "data/image_sizes.h"
#include "data/image_store.h"
#include "data/images/decoder.h"
#include "data/parallel.h"
#include "run/data/data.h"
#include "run/data/images.h"
#include "run/spec/spec.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

struct Look {
  int64_t width = 0, height = 0, channels = 0;  // all 0: the image cannot be read
  std::string sum;                              // size and checksum of the file's bytes
  std::string wrong;                            // the problem; empty: none
  std::map<int64_t, int64_t> pixels;            // number of pixels of the mask for each pixel value
};

Look look_at(const ImageStore& store, const std::string& path, const std::string& mask) {
  Look out;
  try {
    const auto [bytes_of, image] = store.read_with_bytes(path);
    out.sum = cat(bytes_of.size(), crc32c(bytes_of.data(), static_cast<int64_t>(bytes_of.size())));
    out.width = image.width;
    out.height = image.height;
    out.channels = image.channels;
    if (mask.empty()) return out;
    const FileBytes bytes = read_file(mask, Exit::data);
    const Image m = decode_image({bytes.text(), mask, true});
    for (const uint8_t v : m.data) ++out.pixels[v];
    if (m.width != image.width || m.height != image.height)
      out.wrong = cat("its mask '", mask, "' is ", m.width, " x ", m.height, " pixels, the image ", image.width, " x ",
                      image.height, image_orientation({bytes_of, path}) > 1 ? ", turned by its EXIF orientation" : "");
  } catch (const Error& e) {
    if (e.exit() != Exit::data) throw;
    // The path is removed from messages, because the report names it already.
    const std::string place = cat("'", printable(path), "': ");
    out.wrong = e.fact().starts_with(place) ? e.fact().substr(place.size()) : e.fact();
  }
  return out;
}

class ImageChecker {
 public:
  ImageChecker(Task task, DataReport& report) : rule_(task_rule(task)), report_(report) {}

  void folder(const RunSpec& spec, const std::string& name, bool training) {
    report_.files.emplace_back();
    FileReport& f = report_.files.back();
    f.name = name;
    f.images.emplace();
    try {
      RunSpec all = spec;
      // Bad rows do not end the check; the report lists them.
      all.data.skip_bad_rows = std::numeric_limits<int64_t>::max();
      const Table table = read_image_table(all, name, true, true);
      f.rows = table.rows();
      report_.notes(table.notes());
      report_.skipped(table.skipped());
      const std::vector<std::string> paths =
          image_paths(table, image_path_column(spec.data.images), spec.data.images.image_root);
      std::vector<std::string> masks(paths.size());
      if (rule_.has_masks()) masks = image_paths(table, *spec.data.label_column, spec.data.images.image_root);
      const ImageStore store(paths);
      std::vector<Look> looks(paths.size());
      const auto threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
      Activity decoding("decoding images", "images", f.rows);
      for_each_on(threads, f.rows, [&](int64_t i) {
        looks[static_cast<size_t>(i)] = look_at(store, paths[static_cast<size_t>(i)], masks[static_cast<size_t>(i)]);
        decoding.add(1);
      });
      for (int64_t r = 0; r < f.rows; ++r) row(table, r, looks[static_cast<size_t>(r)], spec.data, training, f);
      count_nearest(looks, image_sizes(spec.data.images), *f.images);
      sum_up(looks, *f.images);
    } catch (const Error& e) {
      if (e.exit() != Exit::data) throw;
      report_.problem(name, e.fact());
    }
    if (training && rule_.has_classes()) report_.check_spelling(f);
    if (training) known_ = f.labels;
  }

 private:
  void row(const Table& table, int64_t r, const Look& look, const DataSpec& data, bool training, FileReport& f) {
    if (!look.wrong.empty()) report_.problem(table.where(r), look.wrong);
    for (const auto& [value, pixels] : look.pixels) f.labels[cat("value ", value, " of masks, pixels")] += pixels;
    std::string label;
    const size_t c = table.column(*data.label_column);
    if (table.has(r, c)) label = table.is_json(r, c) ? table.json(r, c) : table.text(r, c);
    if (rule_.has_classes()) {
      if (label.empty()) report_.problem(table.where(r), "there is no label");
      ++f.labels[label];
      if (!training && !known_.empty() && !known_.count(label))
        report_.problem(table.where(r), cat("the label '", printable(label), "' is not in the training data"));
    }
    if (look.sum.empty()) return;
    const auto [seen, fresh] = (training ? training_ : validation_).emplace(look.sum, std::pair{label, table.where(r)});
    if (!fresh) {
      ++f.duplicates;
      if (!rule_.has_masks() && seen->second.first != label)
        report_.problem(table.where(r), cat("the image of ", seen->second.second, " has another label here"));
    }
    if (!training) report_.in_both += training_.count(look.sum) > 0;
  }

  static void count_nearest(const std::vector<Look>& looks, const std::vector<ImageSize>& sizes, ImageSizes& out) {
    for (const ImageSize size : sizes) out.nearest.emplace_back(text_of(size), 0);
    if (sizes.empty()) return;
    for (const Look& l : looks) {
      if (l.channels > 0) ++out.nearest[nearest_size(sizes, {l.height, l.width})].second;
    }
  }

  static void sum_up(std::vector<Look> looks, ImageSizes& out) {
    std::erase_if(looks, [](const Look& l) { return l.channels == 0; });
    if (looks.empty()) return;
    std::stable_sort(looks.begin(), looks.end(),
                     [](const Look& a, const Look& b) { return a.width * a.height < b.width * b.height; });
    std::set<std::pair<int64_t, int64_t>> sizes;
    for (const Look& l : looks) {
      sizes.emplace(l.width, l.height);
      out.grey += l.channels == 1;
    }
    const auto size = [](const Look& l) { return std::pair(l.width, l.height); };
    out.images = static_cast<int64_t>(looks.size());
    out.sizes = static_cast<int64_t>(sizes.size());
    out.smallest = size(looks.front());
    out.median = size(looks[looks.size() / 2]);
    out.largest = size(looks.back());
  }

  const TaskRule& rule_;
  DataReport& report_;
  std::map<std::string, int64_t> known_;
  // key: Look::sum; value: label and location of the first image with it
  using Seen = std::unordered_map<std::string, std::pair<std::string, std::string>>;
  Seen training_, validation_;
};

}  // namespace

DataReport check_images(const RunSpec& spec, Task task) {
  DataReport report;
  report.task = name_of(task);
  ImageChecker checker(task, report);
  checker.folder(spec, spec.data.train, true);
  if (!spec.data.val.empty()) checker.folder(validation_spec(spec), spec.data.val, false);
  return report;
}

}  // namespace amp
