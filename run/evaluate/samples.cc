// Writes samples.json for the report: the worst samples of the last evaluation with their text, thumbnails or colored
// masks. SampleRows reads the validation data again, because datasets keep only what the model needs. All sizes are
// bounded by the constants below.
#include "run/evaluate/samples.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/file.h"
#include "base/text.h"
#include "data/image_files.h"
#include "data/image_store.h"
#include "data/images/decoder.h"
#include "data/text_dataset.h"
#include "data/tokenizer.h"
#include "data/transforms/pipeline.h"
#include "data/transforms/resample.h"
#include "run/data/data.h"
#include "run/data/images.h"
#include "run/folder/run_files.h"
#include "run/prepare/prepare.h"
#include "run/spec/spec.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

using nlohmann::json;
constexpr size_t kMostText = 1500;     // largest number of bytes per text
constexpr size_t kCells = 24;          // largest number of cells per row
constexpr int64_t kPicture = 128;      // pixels of a thumbnail's longer side
constexpr int64_t kMaskPicture = 256;  // pixels of the longer side of a picture that is drawn under masks
constexpr size_t kMasks = 4;           // largest number of samples whose masks are drawn
constexpr size_t kColors = 48;         // largest number of classes in the legend

// Truncates a text to at most `most` bytes at a character boundary.
std::string cut(std::string text, size_t most = kMostText) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most) + "…";
}

std::string picture(const Image& image) { return "data:image/png;base64," + to_base64(encode_png(image)); }

ImageSize within(int64_t height, int64_t width, int64_t longest) {
  const int64_t side = std::max(height, width);
  if (side <= longest) return {height, width};
  return {std::max<int64_t>(1, height * longest / side), std::max<int64_t>(1, width * longest / side)};
}

Image thumbnail(const Image& image, int64_t longest) {
  const ImageSize s = within(image.height, image.width, longest);
  return resized(image, s.height, s.width, Interpolation::bilinear);
}

// Returns a distinguishable color per class: hues by the golden angle, in two lightnesses.
std::array<uint8_t, 3> color_of(size_t cls) {
  const double hue = std::fmod(static_cast<double>(cls) * 137.508 + 210, 360), light = cls % 2 ? 0.62 : 0.46;
  const double chroma = (1 - std::abs(2 * light - 1)) * 0.72;
  std::array<uint8_t, 3> out{};
  for (size_t c = 0; c < 3; ++c) {  // HSL to RGB
    const double k = std::fmod((c == 0 ? 0 : c == 1 ? 8 : 4) + hue / 30, 12);
    out[c] = static_cast<uint8_t>(255 * (light - chroma / 2 * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}))));
  }
  return out;
}

std::string hex_color(size_t cls) {
  std::string out = "#";
  for (const uint8_t v : color_of(cls)) out += {"0123456789abcdef"[v >> 4], "0123456789abcdef"[v & 15]};
  return out;
}

// Draws a mask in class colors. Ignored pixels are gray.
Image colored(const Mask& mask) {
  const ImageSize s = within(mask.height, mask.width, kMaskPicture);
  const Mask small = resized_nearest(mask, s.height, s.width);
  Image out(small.width, small.height, 3);
  for (size_t i = 0; i < small.data.size(); ++i) {
    const auto color =
        small.data[i] < 0 ? std::array<uint8_t, 3>{128, 128, 128} : color_of(static_cast<size_t>(small.data[i]));
    std::copy(color.begin(), color.end(), out.data.begin() + static_cast<std::ptrdiff_t>(3 * i));
  }
  return out;
}

}  // namespace

// The rows of the validation data, read again for display.
class SampleRows {
 public:
  explicit SampleRows(const PreparedRun& run)
      : spec_(run.spec.data.val.empty() ? run.spec : validation_spec(run.spec)),
        path_(run.spec.data.val.empty() ? run.spec.data.train : run.spec.data.val),
        kind_(run.facts.kind()),
        task_(run.ready.task),
        data_(run.data.val->numbered()) {
    if (kind_ == DataKind::tensors) return;
    if (kind_ == DataKind::text && task_rule(task_).writes_text())
      tokenizer_ = open_tokenizer(tokenizer_path(spec_), tokenizer_options(spec_.data.text));
    if (kind_ == DataKind::text && task_rule(task_).text == TextForm::own_tokens)
      return;  // the rows' cells are not shown, because a sample may hold several rows or a part of one
    if (kind_ == DataKind::images) {
      rows_.table = read_image_table(spec_, path_);
      paths_ = image_paths(*rows_.table, image_path_column(spec_.data.images), spec_.data.images.image_root);
    } else {
      // The task decides how text is read: for example, as questions with answers, or as words with tags.
      rows_ = read_text_rows(spec_, path_, kind_ == DataKind::text ? task_ : Task::none);
    }
  }

  json text(const SampleRecord& s) const {
    json out = json::array();
    if (!s.passage.empty() || !s.question.empty()) return {{"question", cut(s.question)}, {"text", cut(s.passage)}};
    if (kind_ == DataKind::tensors) return out;
    if (kind_ == DataKind::images) return {{"file", paths_.at(row_of(s.sample))}};
    if (!rows_.table && tokenizer_) return {{"text", cut(decoded(s.sample))}};
    const std::vector<std::string> names = rows_.columns();
    const std::vector<nlohmann::ordered_json> cells = rows_.cells(static_cast<int64_t>(row_of(s.sample)));
    std::vector<std::string> wanted = *spec_.data.text.text_columns;
    // For retrieval, the texts of the candidates are shown as label and prediction.
    if (task_rule(task_).embeddings && wanted.size() > 1) wanted.resize(1);
    for (size_t c = 0; c < names.size() && c < cells.size() && out.size() < kCells; ++c) {
      const bool asked = wanted.empty() || std::find(wanted.begin(), wanted.end(), names[c]) != wanted.end();
      if (asked && !cells[c].is_null()) out.push_back({names[c], cut(text_of(cells[c]))});
    }
    return out;
  }

  std::string token(int64_t id) const {
    if (!tokenizer_ || id >= tokenizer_->size()) return cat("token ", id);
    const auto one = static_cast<int32_t>(id);
    return tokenizer_->decode({&one, 1}, true);
  }

  // Returns a retrieval candidate: the text on one side of a row or, for tensors, the row's location.
  std::string candidate(int64_t sample, int64_t side) const {
    const std::vector<std::string>& sides = *spec_.data.text.text_columns;
    if (!rows_.table || side >= static_cast<int64_t>(sides.size())) return data_.where(sample);
    const size_t column = rows_.table->column(sides[static_cast<size_t>(side)]);
    return text_of(rows_.cells(static_cast<int64_t>(row_of(sample))).at(column));
  }

  bool pictures() const { return kind_ == DataKind::images; }
  Image picture_of(const SampleRecord& s) const {
    const std::string& path = paths_.at(row_of(s.sample));
    return ImageStore({path}).read(path, 3);
  }

  // Returns the picture with the geometric transforms that the model's input had, so that the masks fit.
  Image under_masks(const SampleRecord& s) const {
    ImageSample made{picture_of(s), std::nullopt};
    const Mask& mask = s.predicted_mask;
    const std::string whole = image_sizes(spec_.data.images).empty()
                                  ? Pipeline(*spec_.data.images.eval_transforms).text()
                                  : Pipeline(*spec_.data.images.eval_transforms).text_for({mask.height, mask.width});
    std::vector<std::string> steps;
    for (const std::string& step : split(whole, '|')) {
      const size_t at = step.find_first_not_of(' ');
      const std::string_view name = std::string_view(step).substr(std::min(at, step.size()));
      const bool on_pixels = name.starts_with("resize") || name.starts_with("center_crop");
      if (on_pixels) steps.push_back(step);
    }
    Draws draws(0, 0, s.sample);
    if (!steps.empty()) Pipeline(join(steps, "|")).apply(made, draws);
    const ImageSize size = within(mask.height, mask.width, kMaskPicture);
    return resized(made.image, size.height, size.width, Interpolation::bilinear);
  }

 private:
  size_t row_of(int64_t sample) const {
    const auto rows = data_.source_rows();
    return static_cast<size_t>(rows.empty() ? sample : rows[static_cast<size_t>(sample)]);
  }

  static std::string text_of(const nlohmann::ordered_json& cell) {
    return cell.is_string() ? cell.get<std::string>() : cell.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  // Decodes a sequence as the model reads it, including the mask tokens of a masked language model.
  std::string decoded(int64_t sample) const {
    const int64_t one[] = {sample};
    const Batch batch = data_.batch(one);
    for (const auto& [name, value] : batch.inputs) {
      if (text_role(name) != TextRole::ids) continue;
      const std::vector<int64_t> padded = value.to_ints();
      // In a pair, padding follows each of its rows, so all ids are decoded.
      const int64_t n = data_.rows_per_sample() > 1 ? value.numel() : std::min<int64_t>(batch.tokens, value.numel());
      const std::vector<int32_t> ids(padded.begin(), padded.begin() + n);
      return tokenizer_->decode(ids, is_masked_language_model(spec_));
    }
    return {};
  }

  RunSpec spec_;
  std::string path_;
  DataKind kind_;
  Task task_;
  const Dataset& data_;
  std::unique_ptr<Tokenizer> tokenizer_;  // set for tasks whose labels are tokens
  TextRows rows_;
  std::vector<std::string> paths_;
};

namespace {

json number_or_null(double v) { return std::isfinite(v) ? json(v) : json(nullptr); }

json sample_json(const SampleRecord& s, const SampleRows& data, const Dataset& numbered) {
  json out = {{"where", cut(numbered.where(s.sample))}, {"error", number_or_null(s.error)}, {"text", data.text(s)}};
  if (s.predicted_mask.empty()) {
    const bool token = s.label_token >= 0, candidate = s.nearest >= 0;
    const auto text = [&](const std::string& named, int64_t id, int64_t sample, int64_t side) {
      return cut(token ? data.token(id) : candidate ? data.candidate(sample, side) : named);
    };
    out["label"] = text(s.label, s.label_token, s.sample, 1);
    out["predicted"] = text(s.predicted, s.predicted_token, s.nearest, s.nearest_side);
    out["probability"] = number_or_null(s.probability);
    if (data.pictures()) out["picture"] = picture(thumbnail(data.picture_of(s), kPicture));
  } else if (data.pictures()) {
    out["picture"] = picture(data.under_masks(s));
    out["label_mask"] = picture(colored(s.label_mask));
    out["predicted_mask"] = picture(colored(s.predicted_mask));
  }
  return out;
}

}  // namespace

SampleWriter::SampleWriter(const PreparedRun& run) : run_(run) {}
SampleWriter::~SampleWriter() = default;

void SampleWriter::write(const WorstSamples& worst, int64_t step, const std::string& folder) {
  std::vector<SampleRecord> wrong = worst.worst();
  if (wrong.empty() && worst.always().empty()) return;
  if (!rows_) rows_ = std::make_unique<SampleRows>(run_);
  const SampleRows& data = *rows_;
  const Dataset& numbered = run_.data.val->numbered();
  json out = {{"step", step}, {"task", name_of(worst.task())}, {"worst", json::array()}, {"always", json::array()}};
  const bool masks = !worst.always().empty();
  std::erase_if(wrong, [&](const SampleRecord& s) {  // removes samples that are already in "always"
    return std::any_of(worst.always().begin(), worst.always().end(),
                       [&](const SampleRecord& a) { return a.sample == s.sample; });
  });
  if (masks && wrong.size() > kMasks) wrong.resize(kMasks);
  for (const SampleRecord& s : wrong) out["worst"].push_back(sample_json(s, data, numbered));
  for (const SampleRecord& s : worst.always()) out["always"].push_back(sample_json(s, data, numbered));
  if (masks) {
    int16_t most = 0;
    for (const std::vector<SampleRecord>* list : {&std::as_const(wrong), &worst.always()}) {
      for (const SampleRecord& s : *list) {
        for (const Mask* m : {&s.label_mask, &s.predicted_mask})
          most = std::max(most, *std::max_element(m->data.begin(), m->data.end()));
      }
    }
    const std::vector<std::string>& names = run_.facts.classes.names;
    const std::vector<std::string>& values = *run_.spec.data.images.mask_values;
    for (size_t c = 0; c < std::min(kColors, static_cast<size_t>(most) + 1); ++c) {
      const std::string name = c < names.size()    ? names[c]
                               : c < values.size() ? cat("class ", c, " (pixels of ", values[c], ")")
                                                   : cat("class ", c);
      out["classes"].push_back({{"name", cut(name, 80)}, {"colour", hex_color(c)}});
    }
  }
  FileWriter file(folder + "/" + kSamplesFile);
  file.write(out.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
  file.commit();
}

}  // namespace amp
