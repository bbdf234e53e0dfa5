// Implements the datasets of image_dataset.h: decodes, transforms and collates images on demand. Random transforms draw
// from Draws(seed, epoch, sample), so a batch does not depend on the number of threads. Training and evaluation
// datasets share one immutable `Files`; they differ in their pipeline.
#include "data/image_dataset.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "base/activity.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "data/image_files.h"
#include "data/image_sizes.h"
#include "data/image_store.h"
#include "data/images/decoder.h"
#include "data/parallel.h"
#include "data/text_dataset.h"

namespace amp {

Dims ImageInput::dims(int64_t rows, int64_t h, int64_t w) const {
  switch (layout) {
    case Layout::nhwc:
      return {rows, h, w, channels};
    case Layout::nhw:
      return {rows, h, w};
    case Layout::nchw:
      break;
  }
  return {rows, channels, h, w};
}

Mask read_mask(const std::string& path, const MaskValues& values) {
  const FileBytes file = read_file(path, Exit::data);
  const Image image = decode_image({file.text(), path, true});
  std::array<int16_t, 256> classes;
  for (int16_t v = 0; v < 256; ++v) {
    const auto at = std::find(values.values.begin(), values.values.end(), v);
    const bool listed = at != values.values.end();
    classes[static_cast<size_t>(v)] = listed                  ? static_cast<int16_t>(at - values.values.begin())
                                      : v == values.ignore    ? kNoClass
                                      : values.values.empty() ? v
                                                              : int16_t{-1};  // not a class; reported below
  }
  Mask out(image.width, image.height, 1);
  for (size_t i = 0; i < out.data.size(); ++i) {
    out.data[i] = classes[image.data[i]];
    if (out.data[i] == -1)
      fail(Exit::data, "E_MASK",
           cat("'", printable(path), "': a pixel with the value ", int{image.data[i]}, " at row ",
               static_cast<int64_t>(i) / out.width, ", column ", static_cast<int64_t>(i) % out.width,
               " is none of the classes' values"),
           "`mask_values` lists the values by class; `mask_ignore` N names a value to ignore");
  }
  return out;
}

std::vector<int64_t> find_mask_values(const std::vector<std::string>& paths) {
  constexpr size_t kLook = 32;
  std::array<bool, 256> seen{};
  for (size_t i = 0; i < std::min(kLook, paths.size()); ++i) {
    const FileBytes file = read_file(paths[i], Exit::data);
    for (const uint8_t v : decode_image({file.text(), paths[i], true}).data) seen[v] = true;
  }
  const bool between = std::any_of(seen.begin() + 1, seen.begin() + 255, [](bool s) { return s; });
  return seen[255] && !between ? std::vector<int64_t>{0, 255} : std::vector<int64_t>{};
}

namespace {

// Immutable data that the datasets for training and evaluation share.
struct Files {
  ImageOptions options;
  std::vector<std::string> label_inputs;
  std::vector<std::string> paths, masks, places;
  std::unique_ptr<const ImageStore> store;
  std::vector<int32_t> buckets;  // index of each image's size in options.sizes
  std::vector<int64_t> ids;      // class id of each image
  std::vector<float> numbers;    // labels that are numbers, or sets as 0 and 1
  size_t width = 1;              // how many of `numbers` belong to each sample
};

class ImageDataset final : public Dataset {
 public:
  ImageDataset(std::shared_ptr<const Files> files, bool training)
      : files_(std::move(files)),
        pipeline_(training ? *files_->options.training : *files_->options.evaluation),
        training_(training) {
    for (const ImageSize size : files_->options.sizes) sized_.emplace_back(pipeline_.text_for(size));
  }

  int64_t size() const override { return static_cast<int64_t>(files_->paths.size()); }
  std::span<const int32_t> buckets() const override { return files_->buckets; }
  Batch batch(std::span<const int64_t> samples) const override { return training_batch(samples, 0); }
  Batch training_batch(std::span<const int64_t> samples, int64_t epoch) const override;
  HostTensor labels_of(std::span<const int64_t> samples) const override {  // does not decode the images
    return options().labels == LabelForm::masks ? HostTensor() : labels(samples, {});
  }
  std::shared_ptr<const Dataset> for_evaluation() const override {
    return training_ ? std::make_shared<ImageDataset>(files_, false) : nullptr;
  }
  InputRanges input_ranges() const override {
    const NumberRange r = pipeline_.range();
    return {{options().input.name, {!is_float(options().input.dtype), r.low, r.high}}};
  }
  std::string where(int64_t sample) const override { return files_->places.at(static_cast<size_t>(sample)); }
  void check_token_range(const std::string&, int64_t) const override {}
  void check_label_range(int64_t classes, int64_t) const override {
    mask_classes_ = classes;  // masks are checked when they are read
    for (size_t s = 0; s < files_->ids.size(); ++s) {
      if (files_->ids[s] < classes) continue;
      fail(Exit::data, "E_DATA_LABEL",
           cat(where(static_cast<int64_t>(s)), ": label '",
               printable(options().classes[static_cast<size_t>(files_->ids[s])]), "' is class ", files_->ids[s],
               ", the model has ", classes, " classes"),
           "train a model with as many outputs as there are labels");
    }
  }

 private:
  const ImageOptions& options() const { return files_->options; }
  ImageSample sample(int64_t sample, int64_t epoch) const;
  void check_mask(const Mask& mask, size_t sample) const;
  void check_sizes(const std::vector<ImageSample>& made, std::span<const int64_t> samples) const;
  void put(const ImageSample& made, HostTensor& input, int64_t row) const;
  HostTensor labels(std::span<const int64_t> samples, const std::vector<ImageSample>& made) const;

  std::shared_ptr<const Files> files_;
  const Pipeline& pipeline_;
  std::vector<Pipeline> sized_;  // one pipeline per size in options.sizes
  bool training_;
  mutable std::atomic<int64_t> mask_classes_{0};  // number of classes of the model's output; 0: unknown
};

void ImageDataset::check_mask(const Mask& mask, size_t sample) const {
  const int64_t classes = mask_classes_;
  if (classes == 0) return;
  const auto beyond = std::find_if(mask.data.begin(), mask.data.end(), [&](int16_t v) { return v >= classes; });
  if (beyond == mask.data.end()) return;
  const int64_t i = beyond - mask.data.begin();
  fail(Exit::data, "E_DATA_LABEL",
       cat("'", printable(files_->masks[sample]), "': the pixel at row ", i / mask.width, ", column ", i % mask.width,
           " is of class ", *beyond, ", the model has ", classes, " classes"),
       "`mask_values` lists the pixels' values by class; `mask_ignore` N names a value to ignore");
}

namespace {
// Returns a hint for a mask of another size than its image. If the sides are swapped, the EXIF orientation rotated the
// image but not the mask.
std::string mask_size_hint(const std::string& path, const Mask& mask, const Image& image) {
  const bool turned = mask.width == image.height && mask.height == image.width && !packed_place(path) &&
                      image_orientation({read_file(path, Exit::data).text(), path}) > 1;
  return turned ? "the image is rotated by its EXIF orientation, the mask is not: rotate the mask, or remove the "
                  "orientation from the image if the mask was drawn for the pixels as they are stored"
                : "a mask has the size of its image";
}
}  // namespace

ImageSample ImageDataset::sample(int64_t sample, int64_t epoch) const {
  const auto s = static_cast<size_t>(sample);
  ImageSample out;
  out.image = files_->store->read(files_->paths.at(s), options().input.channels);
  if (!files_->masks.empty()) {
    out.mask = read_mask(files_->masks[s], options().masks);
    if (out.mask->width != out.image.width || out.mask->height != out.image.height)
      fail(Exit::data, "E_MASK",
           cat("'", printable(files_->masks[s]), "' is ", out.mask->width, " x ", out.mask->height,
               " pixels, its image '", printable(files_->paths[s]), "' ", out.image.width, " x ", out.image.height),
           mask_size_hint(files_->paths[s], *out.mask, out.image));
    check_mask(*out.mask, s);
  }
  Draws draws(options().seed, epoch, sample);
  try {
    (sized_.empty() ? pipeline_ : sized_[static_cast<size_t>(files_->buckets[s])]).apply(out, draws);
  } catch (Error& e) {
    throw e.at(cat("in image '", printable(files_->paths[s]), "'"));
  }
  return out;
}

void ImageDataset::check_sizes(const std::vector<ImageSample>& made, std::span<const int64_t> samples) const {
  const ImageInput& in = options().input;
  const Image& first = made.front().image;
  const std::string hint =
      "make all of one size: \"resize H,W\", or \"resize N | center_crop N\", in `transforms` and "
      "`eval_transforms`";
  for (size_t i = 0; i < made.size(); ++i) {
    const Image& image = made[i].image;
    const std::string which = cat("'", printable(files_->paths[static_cast<size_t>(samples[i])]), "' is ", image.width,
                                  " x ", image.height, " pixels after the transforms");
    if ((in.height > 0 && image.height != in.height) || (in.width > 0 && image.width != in.width))
      fail(Exit::data, "E_IMAGE_SIZE",
           cat(which, ", the model's input '", printable(in.name), "' takes ",
               in.width > 0 ? std::to_string(in.width) : "any", " x ",
               in.height > 0 ? std::to_string(in.height) : "any"),
           hint);
    if (image.width != first.width || image.height != first.height)
      fail(Exit::data, "E_IMAGE_SIZE", cat(which, ", others of its batch ", first.width, " x ", first.height), hint);
  }
}

void ImageDataset::put(const ImageSample& made, HostTensor& input, int64_t row) const {
  const auto count = static_cast<int64_t>(made.numbers.size()), channels = made.channels(), pixels = count / channels;
  float* const to = input.as_mutable<float>() + row * count;
  if (options().input.layout != ImageInput::Layout::nhwc) {
    std::copy(made.numbers.begin(), made.numbers.end(), to);
    return;
  }
  for (int64_t c = 0; c < channels; ++c) {
    const float* const from = made.numbers.data() + c * pixels;
    for (int64_t i = 0; i < pixels; ++i) to[i * channels + c] = from[i];
  }
}

HostTensor ImageDataset::labels(std::span<const int64_t> samples, const std::vector<ImageSample>& made) const {
  const auto rows = static_cast<int64_t>(samples.size());
  if (options().label_column.empty()) return {};
  if (options().labels == LabelForm::masks) {
    const Mask& first = *made.front().mask;
    HostTensor out = HostTensor::empty(DType::i64, {rows, first.height, first.width});
    auto* to = out.as_mutable<int64_t>();
    for (const ImageSample& m : made) to = std::copy(m.mask->data.begin(), m.mask->data.end(), to);
    return out;
  }
  if (options().labels == LabelForm::classes) {
    HostTensor out = HostTensor::empty(DType::i64, {rows});
    for (int64_t r = 0; r < rows; ++r)
      out.as_mutable<int64_t>()[r] = files_->ids[static_cast<size_t>(samples[static_cast<size_t>(r)])];
    return out;
  }
  const auto width = static_cast<int64_t>(files_->width);
  const bool sets = options().labels == LabelForm::sets;
  HostTensor out = HostTensor::empty(DType::f32, sets ? Dims{rows, width} : Dims{rows});
  for (int64_t r = 0; r < rows; ++r)
    std::copy_n(files_->numbers.data() + samples[static_cast<size_t>(r)] * width, width,
                out.as_mutable<float>() + r * width);
  return out;
}

Batch ImageDataset::training_batch(std::span<const int64_t> samples, int64_t epoch) const {
  std::vector<ImageSample> made(samples.size());
  for_each_on(options().threads, static_cast<int64_t>(samples.size()),
              [&](int64_t i) { made[static_cast<size_t>(i)] = sample(samples[static_cast<size_t>(i)], epoch); });
  check_sizes(made, samples);
  Batch b;
  b.rows = static_cast<int64_t>(samples.size());
  b.samples.assign(samples.begin(), samples.end());
  const Image& first = made.front().image;
  HostTensor input = HostTensor::empty(DType::f32, options().input.dims(b.rows, first.height, first.width));
  for (int64_t r = 0; r < b.rows; ++r) put(made[static_cast<size_t>(r)], input, r);
  b.inputs[options().input.name] = input.cast(options().input.dtype);
  b.labels = labels(samples, made);
  for (const std::string& name : files_->label_inputs) b.inputs[name] = b.labels;
  b.valid_items = count_valid(b.labels);
  return b;
}

void find_buckets(Files& files) {
  const ImageOptions& o = files.options;
  if (o.sizes.empty()) return;
  files.buckets.resize(files.paths.size());
  Activity reading("reading sizes of images", "images", std::ssize(files.paths));
  for_each_on(o.threads, static_cast<int64_t>(files.paths.size()), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    files.buckets[at] = static_cast<int32_t>(nearest_size(o.sizes, files.store->size(files.paths[at])));
    reading.add(1);
  });
}

void read_labels(const Table& table, const ImageOptions& o, Files& files) {
  switch (o.labels) {
    case LabelForm::classes:
      files.ids = class_ids(table, o.label_column, o.classes);
      break;
    case LabelForm::numbers:
      files.numbers = label_numbers(table, o.label_column);
      break;
    case LabelForm::sets:
      files.numbers = multi_hot(table, label_sets(table, o.label_column), o.classes);
      files.width = o.classes.size();
      break;
    case LabelForm::masks:
      files.masks = image_paths(table, o.label_column, o.root);
      break;
    case LabelForm::tokens:
    case LabelForm::spans:
    case LabelForm::ids:
      bug("labels of tokens for images");
  }
}

}  // namespace

std::unique_ptr<Dataset> make_image_dataset(const Table& table, const std::vector<InputSpec>& inputs,
                                            const ImageOptions& options, bool training) {
  auto files = std::make_shared<Files>();
  files->options = options;
  for (const InputSpec& i : inputs) {
    if (i.name == options.input.name) continue;
    if (text_role(i.name) != TextRole::label)
      fail(Exit::data, "E_DATA_INPUT",
           cat("the model's input '", printable(i.name), "' is neither the image nor its label"),
           "give tensors: a .safetensors or .npz file with every input");
    files->label_inputs.push_back(i.name);
  }
  files->paths = image_paths(table, options.path_column, options.root);
  if (files->paths.empty()) fail(Exit::data, "E_DATA_EMPTY", cat("'", printable(table.name()), "' names no images"));
  files->store = std::make_unique<ImageStore>(files->paths);
  find_buckets(*files);
  for (int64_t r = 0; r < table.rows(); ++r) files->places.push_back(table.where(r));
  if (!options.label_column.empty()) read_labels(table, options, *files);
  return std::make_unique<ImageDataset>(std::move(files), training);
}

}  // namespace amp
