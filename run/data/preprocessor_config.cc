// Translates image processors of Hugging Face (preprocessor_config.json) and timm's pretrained_cfg to transform
// pipelines. Keys that a pipeline cannot express throw Unread, and the file is then ignored with a note: a wrong guess
// would cost accuracy without an error. The files have no training transforms: training uses the same size and
// normalization.

#include "run/data/preprocessor_config.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/json_nesting.h"
#include "base/text.h"
#include "run/data/model_folders.h"

namespace amp {

namespace {

struct Unread {
  std::string why;
};

struct Size {
  int64_t height = 0, width = 0;
  bool shorter = false;  // resize the shorter side to `height`, keep the aspect ratio
};

struct Steps {
  std::string geometry, size, interpolation, values;
};

int64_t whole(const nlohmann::json& j, const char* key) {
  if (!j.is_number_integer() || j.get<int64_t>() < 1 || j.get<int64_t>() > 65535) throw Unread{cat("'", key, "'")};
  return j.get<int64_t>();
}

std::string numbers(const nlohmann::json& j, const char* key) {
  if (!j.is_array() || j.empty()) throw Unread{cat("'", key, "'")};
  std::vector<std::string> out;
  for (const nlohmann::json& v : j) {
    if (!v.is_number()) throw Unread{cat("'", key, "'")};
    out.push_back(v.dump());
  }
  return join(out, ",");
}

bool said(const nlohmann::json& j, const char* key, bool otherwise) {
  const auto it = j.find(key);
  return it == j.end() || it->is_null() ? otherwise : it->is_boolean() && it->get<bool>();
}

std::string text(const Size& s) {
  return s.shorter || s.height == s.width ? std::to_string(s.height) : cat(s.height, ",", s.width);
}
std::string both(int64_t height, int64_t width) { return cat("resize ", height, ",", width); }

// Reads a number, {"height", "width"} or {"shortest_edge"}.
Size size_of_image(const nlohmann::json& j, const char* key, bool number_is_shorter) {
  if (!j.contains(key)) throw Unread{cat("no '", key, "'")};
  const nlohmann::json& s = j[key];
  if (s.is_number()) return {whole(s, key), whole(s, key), number_is_shorter};
  if (!s.is_object()) throw Unread{cat("'", key, "'")};
  if (s.contains("height") && s.contains("width")) return {whole(s["height"], key), whole(s["width"], key)};
  if (s.contains("shortest_edge") && !s.contains("longest_edge"))
    return {whole(s["shortest_edge"], key), whole(s["shortest_edge"], key), true};
  throw Unread{cat("'", key, "' ", s.dump())};
}

// Returns whether a number in older files of this processor is the shorter side. For other processors it is the side of
// a square.
bool takes_shorter_side(const std::string& type) {
  for (const char* const name : {"CLIP", "ConvNext", "Bit", "Levit", "MobileNet", "MobileViT", "PoolFormer"}) {
    if (type.starts_with(name)) return true;
  }
  return false;
}

std::string interpolation_of(const nlohmann::json& j) {  // PIL.Image.Resampling
  static const std::array<const char*, 6> names = {"nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"};
  const nlohmann::json number = j.value("resample", nlohmann::json());
  if (!number.is_number_integer() || number < 0 || number > 5) throw Unread{"no 'resample'"};
  return names[number.get<size_t>()];
}

std::string values_of(const nlohmann::json& j) {
  std::vector<std::string> out;
  if (!said(j, "do_rescale", true)) {
    out.emplace_back("to_float");
  } else if (std::abs(j.value("rescale_factor", 1 / 255.0) * 255 - 1) > 1e-6 || said(j, "rescale_offset", false)) {
    throw Unread{"its rescaling"};
  }
  if (said(j, "do_normalize", j.contains("image_mean")))
    out.push_back(cat("normalize mean=", numbers(j.value("image_mean", nlohmann::json()), "image_mean"),
                      " std=", numbers(j.value("image_std", nlohmann::json()), "image_std")));
  return join(out, " | ");
}

Steps hugging_face(const nlohmann::json& j) {
  const std::string type = j.value("image_processor_type", j.value("feature_extractor_type", ""));
  for (const char* const key :
       {"do_pad", "do_reduce_labels", "do_thumbnail", "do_flip_channel_order", "do_split_image"}) {
    if (said(j, key, false)) throw Unread{cat("'", key, "'")};
  }
  Steps out;
  out.values = values_of(j);
  std::vector<std::string> steps;
  if (said(j, "do_resize", j.contains("size"))) {
    const Size s = size_of_image(j, "size", takes_shorter_side(type));
    out.interpolation = interpolation_of(j);
    out.size = text(s);
    const std::string by = cat(" interpolation=", out.interpolation);
    if (type.starts_with("ConvNext") && s.shorter) {
      const auto larger = static_cast<int64_t>(static_cast<double>(s.height) / j.value("crop_pct", 0.875));
      steps.push_back(s.height < 384 ? cat("resize ", larger, by, " | center_crop ", s.height)
                                     : cat(both(s.height, s.height), by));
    } else {
      steps.push_back(cat(s.shorter ? cat("resize ", s.height) : both(s.height, s.width), by));
    }
  }
  if (said(j, "do_center_crop", false)) {
    const Size s = size_of_image(j, "crop_size", false);
    out.size = text(s);
    steps.push_back(cat("center_crop ", out.size));
  }
  if (steps.empty()) throw Unread{"no size"};
  out.geometry = join(steps, " | ");
  return out;
}

Steps timm(const nlohmann::json& j) {
  const nlohmann::json& input = j.value("input_size", nlohmann::json());
  if (!input.is_array() || input.size() != 3) throw Unread{"'input_size'"};
  const int64_t h = whole(input[1], "input_size"), w = whole(input[2], "input_size");
  const std::string mode = j.value("crop_mode", "center");
  Steps out;
  out.interpolation = j.value("interpolation", "bilinear");
  for (const char* const known : {"nearest", "bilinear", "bicubic", "box", "hamming", "lanczos", ""}) {
    if (!*known) throw Unread{cat("interpolation '", printable(out.interpolation), "'")};
    if (out.interpolation == known) break;
  }
  if (h != w && mode == "center") throw Unread{"an input that is no square"};
  if (mode != "center" && mode != "squash") throw Unread{cat("crop_mode '", printable(mode), "'")};
  const double share = j.value("crop_pct", 0.875);
  const auto larger = [&](int64_t n) { return static_cast<int64_t>(std::floor(static_cast<double>(n) / share)); };
  out.size = text({h, w});
  out.geometry = cat(mode == "center" ? cat("resize ", larger(h)) : both(larger(h), larger(w)),
                     " interpolation=", out.interpolation, " | center_crop ", out.size);
  out.values = cat("normalize mean=", numbers(j.value("mean", nlohmann::json()), "mean"),
                   " std=", numbers(j.value("std", nlohmann::json()), "std"));
  return out;
}

}  // namespace

std::optional<ImageProcessing> read_image_processing(const nlohmann::json& config, bool masks, std::string& why) {
  why.clear();
  const bool huggingface =
      config.is_object() && (config.contains("image_processor_type") || config.contains("feature_extractor_type") ||
                             config.contains("do_resize"));
  const bool is_timm = config.is_object() && config.contains("pretrained_cfg") && config["pretrained_cfg"].is_object();
  if (!huggingface && !is_timm) return std::nullopt;
  try {
    const Steps s = is_timm ? timm(config["pretrained_cfg"]) : hugging_face(config);
    const std::string values = s.values.empty() ? "" : " | " + s.values;
    const std::string crop = s.interpolation.empty()
                                 ? cat("random_crop ", s.size)
                                 : cat("random_resized_crop ", s.size, " interpolation=", s.interpolation);
    return ImageProcessing{s.geometry + values, masks ? cat(s.geometry, " | horizontal_flip", values)
                                                      : cat(crop, " | horizontal_flip", values)};
  } catch (const Unread& e) {
    why = e.why;
  } catch (const nlohmann::json::exception& e) {
    why = printable(e.what());
  }
  return std::nullopt;
}

std::optional<ImageProcessing> image_processing_of(const std::string& model, bool masks, const Log& log) {
  std::vector<std::string> paths;
  for (const std::string& folder : folders_of_model(model)) {
    for (const char* const name : {"preprocessor_config.json", "config.json"})
      paths.push_back((std::filesystem::path(folder) / name).string());
  }
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) continue;
    const nlohmann::json config = parse_json(read_file(path).text());
    std::string why;
    const auto found = read_image_processing(config, masks, why);
    if (!why.empty()) log.note(cat("'", printable(path), "' is not taken for images: ", why, " is not understood"));
    if (found) {
      log.info(cat("images: transforms of '", printable(path), "'"));
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace amp
