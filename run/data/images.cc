// Opens images as a dataset: class folders, image files, packed files (CIFAR, IDX), tables of paths, and masks.
// Transforms come from settings, else from the model's preprocessor_config.json, else from image_guess.h. They are
// chosen once, in with_transforms(), so that run.json and the model's metadata record the ones that were used.

#include "run/data/images.h"

#include <algorithm>
#include <thread>

#include "base/fs.h"
#include "base/text.h"
#include "data/image_files.h"
#include "data/image_sizes.h"
#include "data/images/decoder.h"
#include "data/images/packed.h"
#include "data/reader.h"
#include "data/text_dataset.h"
#include "data/transforms/mixing.h"
#include "run/data/bad_rows.h"
#include "run/data/data_kind.h"
#include "run/data/features.h"
#include "run/data/image_guess.h"
#include "run/data/image_notes.h"
#include "run/data/preprocessor_config.h"
#include "run/data/text_rows.h"
#include "run/spec/spec.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {
std::string last_of(const std::string& names) {  // the last file of "a,b": all files are of one kind
  const std::vector<std::string> parts = split(names, ',');
  return parts.empty() ? "" : parts.back();
}

bool names_folders(const std::string& names) {
  if (is_dir(names)) return true;
  if (names.find(',') == std::string::npos) return false;
  const std::vector<std::string> parts = split(names, ',');
  const auto folders = std::count_if(parts.begin(), parts.end(), [](const std::string& p) { return is_dir(p); });
  if (folders > 0 && folders < static_cast<std::ptrdiff_t>(parts.size()))
    fail(Exit::usage, "E_USAGE", cat("'", printable(names), "' names folders and files"), "give data of one kind");
  return folders > 0;
}
}  // namespace

DataKind data_kind(const DataSpec& data, const std::string& path) {
  if (names_folders(path)) return DataKind::images;
  refuse_columnar(last_of(path));
  if (!is_text_file(path)) return DataKind::tensors;
  if (has_image_extension(last_of(path)) || packed_kind_of(last_of(path))) return DataKind::images;
  if (!data.images.image_column->empty()) return DataKind::images;
  return names_features(data.tables) && data.text.text_columns->empty() ? DataKind::features : DataKind::text;
}

std::string image_path_column(const ImageSpec& images) {
  return images.image_column->empty() ? ImageColumns().path : *images.image_column;
}

static PackedColumns packed_columns(const DataSpec& data, bool labeled) {
  return {image_path_column(data.images), *data.label_column, labeled, data.images.train_labels};
}

std::vector<std::string> numbered_image_classes(const DataSpec& data, const std::string& path) {
  return packed_kind_of(last_of(path)) ? packed_classes(path, packed_columns(data, true)) : std::vector<std::string>();
}

void require_one_kind(const DataSpec& data) {
  if (data_kind(data, data.train) == DataKind::tensors || !names_features(data.tables) ||
      data.text.text_columns->empty())
    return;
  fail(Exit::usage, "E_USAGE", "`text_columns` names texts, and `target` or `categorical` a table of features",
       "name the label of texts with `label_column`");
}

static Table all_images(const RunSpec& spec, const std::string& path, bool labeled, bool notes_faults) {
  const ImageColumns columns{image_path_column(spec.data.images), *spec.data.label_column, notes_faults};
  if (packed_kind_of(last_of(path))) return packed_table(path, packed_columns(spec.data, labeled));
  const bool files = names_folders(path) || has_image_extension(last_of(path));
  if (!files) return read_table(spec, path);
  if (!labeled) return images_named(path, columns);
  if (!spec.data.images.train_masks.empty()) return masked_images(path, spec.data.images.train_masks, columns);
  if (!names_folders(path))
    fail(Exit::usage, "E_USAGE", cat("'", printable(path), "' is an image, and has no label"),
         "name a folder with a folder for each class, or a table of images with `image_column`");
  return class_folders(path, columns);
}

Table read_image_table(const RunSpec& spec, const std::string& path, bool labeled, bool notes_faults) {
  Table table = all_images(spec, path, labeled, notes_faults);
  skip_bad_images(spec, table);
  return table;
}

std::vector<ImageSize> image_sizes(const ImageSpec& images) {
  std::vector<ImageSize> sizes;
  for (const std::string& text : *images.image_sizes) {
    const ImageSize size = parse_image_size(text).value_or(ImageSize{});
    if (size == ImageSize{})
      fail(Exit::usage, "E_USAGE", cat("`image_sizes` '", printable(text), "' is no size as 192x256 (height x width)"));
    if (std::find(sizes.begin(), sizes.end(), size) != sizes.end())
      fail(Exit::usage, "E_IMAGE_SIZES", cat("`image_sizes` names ", text, " twice"), "name each size once");
    sizes.push_back(size);
  }
  return largest_first(std::move(sizes));
}

std::string counts_of(std::span<const ImageSize> sizes, std::span<const int32_t> buckets) {
  std::vector<std::string> out;
  for (size_t i = 0; i < sizes.size(); ++i)
    out.push_back(cat(text_of(sizes[i]), ": ", with_thousands(std::count(buckets.begin(), buckets.end(), i))));
  return join(out, ", ");
}

namespace {

LabelForm label_form(Task task) {
  const TaskRule& rule = task_rule(task);
  if (!rule.images)
    fail(Exit::usage, "E_TASK", cat("`task` ", name_of(task), " has no labels that images could have"),
         cat("images are for ", task_names(&TaskRule::images)));
  return *rule.labels;
}

MaskValues mask_values(const ImageSpec& images) {
  MaskValues m;
  for (const std::string& text : *images.mask_values) {
    int64_t v = -1;
    if (text.find_first_not_of("0123456789") == std::string::npos && text.size() < 4) v = std::stoll(text);
    if (v < 0 || v > 255)
      fail(Exit::usage, "E_FLAG_VALUE", cat("`mask_values` '", printable(text), "': values of pixels are 0 to 255"));
    m.values.push_back(v);
  }
  m.ignore = *images.mask_ignore;
  return m;
}

int loading_threads(const RunSpec& spec) {
  if (spec.data.images.loading_threads > 0) return static_cast<int>(spec.data.images.loading_threads);
  return static_cast<int>(spec.device.threads > 0 ? spec.device.threads
                                                  : std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

// Returns the input with the longest side of the largest size. If there are several sizes, transforms are chosen for
// this one.
static ImageInput of_size(ImageInput input, const std::vector<ImageSize>& sizes) {
  if (!sizes.empty()) input.height = input.width = std::max(sizes[0].height, sizes[0].width);
  return input;
}

RunSpec with_transforms(RunSpec spec, const SourceGraph& graph, const DataNeeds& needs, const Table& table,
                        const Log& log) {
  const ImageInput input = image_input(spec.data.images, graph, input_specs(graph, needs.inputs));
  const std::vector<std::string> paths =
      image_paths(table, image_path_column(spec.data.images), spec.data.images.image_root);
  if (paths.empty()) fail(Exit::data, "E_DATA_EMPTY", cat("'", printable(table.name()), "' names no images"));
  const bool masks = task_rule(needs.task).has_masks();
  const std::vector<ImageSize> sizes = image_sizes(spec.data.images);
  for (const ImageSize size : sizes) require_size(graph, input, masks, size);
  // Files in the model's folder take precedence over a guess by the input. If only `eval_transforms` is given, training
  // uses the same steps.
  if (*spec.data.images.transforms == "auto" || *spec.data.images.eval_transforms == "auto") {
    const auto said = image_processing_of(spec.model.model, masks, log);
    const ImageGuess guess = said ? ImageGuess{said->training, said->evaluation}
                                  : guess_transforms(graph, of_size(input, sizes), masks, paths[0]);
    if (*spec.data.images.eval_transforms == "auto") spec.data.images.eval_transforms.suggest(guess.evaluation);
    if (*spec.data.images.transforms == "auto")
      spec.data.images.transforms.suggest(spec.data.images.eval_transforms.asked() ? *spec.data.images.eval_transforms
                                                                                   : guess.training);
  }
  // With more than two classes, pixel values are class ids, and 255 is ignored (`mask_ignore`).
  const bool two = masks && needs.mask_classes <= 2;
  if (two && needs.labeled && spec.data.images.mask_values->empty()) {
    std::vector<std::string> texts;
    for (const int64_t v : find_mask_values(image_paths(table, *spec.data.label_column, spec.data.images.image_root)))
      texts.push_back(std::to_string(v));
    spec.data.images.mask_values.suggest(texts);
  }
  log.info(cat("images: ", describe(input),
               needs.training ? cat("; training (`transforms`): ", *spec.data.images.transforms) : std::string(),
               "; evaluation (`eval_transforms`): ", *spec.data.images.eval_transforms,
               spec.data.images.mask_values->empty()
                   ? ""
                   : cat("; mask values by class: ", join(*spec.data.images.mask_values, ","))));
  if (sizes.empty()) return spec;
  const std::string at = cat("image sizes: for ", text_of(sizes[0]), " (height x width), ");
  log.info(cat(at,
               needs.training ? cat("training: ", Pipeline(*spec.data.images.transforms).text_for(sizes[0]), "; ")
                              : std::string(),
               "evaluation: ", Pipeline(*spec.data.images.eval_transforms).text_for(sizes[0])));
  return spec;
}

static void require_one_label_an_image(const DataNeeds& needs, const std::vector<InputSpec>& inputs) {
  const bool fed = std::any_of(inputs.begin(), inputs.end(),
                               [](const InputSpec& i) { return text_role(i.name) == TextRole::label; });
  if (task_rule(needs.task).has_masks() || fed)
    fail(Exit::usage, "E_MIXUP",
         fed ? "`mixup` and `cutmix` make probabilities of labels, which this model takes as an input"
             : "`mixup` and `cutmix` mix one label an image, segmentation has one a pixel",
         "leave them out; `transforms` has random_resized_crop, color_jitter and others");
}

std::unique_ptr<Dataset> open_image_dataset(const RunSpec& spec, const Table& table, const SourceGraph& graph,
                                            const DataNeeds& needs) {
  log_image_notes(image_paths(table, image_path_column(spec.data.images), spec.data.images.image_root),
                  needs.labeled && task_rule(needs.task).has_masks(), needs.log);
  std::vector<InputSpec> inputs = input_specs(graph, needs.inputs);
  inputs.insert(inputs.end(), needs.more_inputs.begin(), needs.more_inputs.end());
  ImageOptions o;
  o.input = image_input(spec.data.images, graph, inputs);
  o.path_column = image_path_column(spec.data.images);
  if (needs.labeled) o.label_column = *spec.data.label_column;
  o.root = spec.data.images.image_root;
  o.labels = label_form(needs.task);
  o.classes = needs.classes;
  o.masks = mask_values(spec.data.images);
  o.evaluation = std::make_shared<Pipeline>(*spec.data.images.eval_transforms);
  o.training = needs.training ? std::make_shared<Pipeline>(*spec.data.images.transforms) : o.evaluation;
  o.sizes = image_sizes(spec.data.images);
  o.seed = static_cast<uint64_t>(spec.device.seed);
  o.threads = loading_threads(spec);
  if (needs.log_matches && task_rule(needs.task).has_classes())
    log_matches(distinct_labels(table, o.label_column), table.name(), needs.classes, needs.log);
  std::unique_ptr<Dataset> data = make_image_dataset(table, inputs, o, needs.training);
  if (!o.sizes.empty())
    needs.log.info(cat("images by size, ", printable(table.name()), ": ", counts_of(o.sizes, data->buckets())));
  if (!needs.training || (spec.data.images.mixup <= 0 && spec.data.images.cutmix <= 0)) return data;
  require_one_label_an_image(needs, inputs);
  MixingOptions m;
  m.mixup = spec.data.images.mixup;
  m.cutmix = spec.data.images.cutmix;
  m.probability = spec.data.images.mixup_prob;
  m.switch_probability = spec.data.images.mixup_switch_prob;
  m.off_epoch = spec.data.images.mixup_off_epoch;
  m.seed = o.seed;
  return make_mixed_dataset(std::move(data), o.input, static_cast<int64_t>(o.classes.size()), m);
}

}  // namespace amp
