#include "run/settings.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "backend/update.h"
#include "backend/update_rules.h"
#include "base/checksum.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/text.h"
#include "data/tokenizer.h"
#include "importer/import.h"
#include "trainer/schedule.h"

namespace amp {

namespace {

template <class T>
struct IsDefault : std::false_type {};
template <class T>
struct IsDefault<Default<T>> : std::true_type {};

constexpr Resume same = Resume::same, content = Resume::same_content, may_change = Resume::free;

const Setting kSettings[] = {
    {"model", &RunSpec::model, content},
    {"task", &RunSpec::task},
    {"loss", &RunSpec::loss},
    {"label_smoothing", &RunSpec::label_smoothing},
    {"output", &RunSpec::output},
    {"teacher", &RunSpec::teacher, content},
    {"teacher_weight", &RunSpec::teacher_weight},
    {"temperature", &RunSpec::temperature},
    {"head_from", &RunSpec::head_from},
    {"pooling", &RunSpec::pooling},
    {"head", &RunSpec::head},
    {"cut_at", &RunSpec::cut_at},
    {"num_labels", &RunSpec::num_labels},
    {"dropout", &RunSpec::dropout},
    {"freeze", &RunSpec::freeze},
    {"trainable", &RunSpec::trainable},
    {"freeze_layers", &RunSpec::freeze_layers},
    {"lora", &RunSpec::lora},
    {"tie_weights", &RunSpec::tie_weights},
    {"train_quantized", &RunSpec::train_quantized},
    {"batchnorm", &RunSpec::batchnorm},

    {"train", &RunSpec::train, content},
    {"val", &RunSpec::val, content},
    {"text_columns", &RunSpec::text_columns},
    {"label_column", &RunSpec::label_column},
    {"delimiter", &RunSpec::delimiter},
    {"tokenizer", &RunSpec::tokenizer, content},
    {"vocab", &RunSpec::vocab, content},
    {"lower_case", &RunSpec::lower_case},
    {"max_seq_len", &RunSpec::max_seq_len},
    {"doc_stride", &RunSpec::doc_stride},
    {"max_answer_length", &RunSpec::max_answer_length, may_change},
    {"pad_to_multiple", &RunSpec::pad_to_multiple},
    {"group_by_length", &RunSpec::group_by_length},
    {"shuffle", &RunSpec::shuffle},

    {"use_fp16", &RunSpec::use_fp16},
    {"use_bf16", &RunSpec::use_bf16},
    {"amp_level", &RunSpec::amp_level},
    {"precision_plan", &RunSpec::precision_plan, content},
    {"calibrate_batches", &RunSpec::calibrate_batches, may_change},
    {"calibrate_rtol", &RunSpec::calibrate_rtol, may_change},
    {"dtype", &RunSpec::dtype, may_change, false},
    {"loss_scale", &RunSpec::loss_scale},
    {"init_loss_scale", &RunSpec::init_loss_scale},
    {"scale_growth_factor", &RunSpec::scale_growth_factor},
    {"scale_backoff_factor", &RunSpec::scale_backoff_factor},
    {"scale_growth_interval", &RunSpec::scale_growth_interval},
    {"min_loss_scale", &RunSpec::min_loss_scale},
    {"max_loss_scale", &RunSpec::max_loss_scale},
    {"scale_hysteresis", &RunSpec::scale_hysteresis},
    {"max_consecutive_skips", &RunSpec::max_consecutive_skips, may_change},
    {"inject_overflow", &RunSpec::inject_overflow, may_change},

    {"optimizer", &RunSpec::optimizer},
    {"optim_args", &RunSpec::optim_args},
    {"lr", &RunSpec::lr},
    {"momentum", &RunSpec::momentum},
    {"nesterov", &RunSpec::nesterov},
    {"adam_beta1", &RunSpec::adam_beta1},
    {"adam_beta2", &RunSpec::adam_beta2},
    {"adam_epsilon", &RunSpec::adam_epsilon},
    {"weight_decay", &RunSpec::weight_decay},
    {"decay_exclude", &RunSpec::decay_exclude},
    {"max_grad_norm", &RunSpec::max_grad_norm},
    {"clip_mode", &RunSpec::clip_mode},
    {"ema_decay", &RunSpec::ema_decay},
    {"epochs", &RunSpec::epochs},
    {"max_steps", &RunSpec::max_steps},
    {"batch_size", &RunSpec::batch_size},
    {"gradient_accumulation_steps", &RunSpec::gradient_accumulation_steps},
    {"lr_scheduler", &RunSpec::lr_scheduler},
    {"lr_scheduler_kwargs", &RunSpec::lr_scheduler_kwargs},
    {"warmup_steps", &RunSpec::warmup_steps},

    {"eval_batch_size", &RunSpec::eval_batch_size, may_change},
    {"eval_steps", &RunSpec::eval_steps, may_change},
    {"metric_for_best_model", &RunSpec::metric_for_best_model},
    {"early_stopping_patience", &RunSpec::early_stopping_patience, may_change},
    {"require", &RunSpec::require, may_change},

    {"output_dir", &RunSpec::output_dir, may_change},
    {"save_steps", &RunSpec::save_steps, may_change},
    {"save_total_limit", &RunSpec::save_total_limit, may_change},
    {"resume", &RunSpec::resume, may_change},
    {"overwrite", &RunSpec::overwrite, may_change, true, false},
    {"logging_steps", &RunSpec::logging_steps, may_change},
    {"export_precision", &RunSpec::export_precision, may_change},
    {"export_weights", &RunSpec::export_weights, may_change},
    {"lora_export", &RunSpec::lora_export, may_change},
    {"verify_export", &RunSpec::verify_export, may_change},

    {"device", &RunSpec::device, may_change},
    {"remove_padding", &RunSpec::remove_padding},
    {"tf32", &RunSpec::tf32},
    {"fusion", &RunSpec::fusion, may_change},
    {"threads", &RunSpec::threads, may_change},
    {"max_graph_nodes", &RunSpec::max_graph_nodes, may_change},
    {"max_activation_bytes", &RunSpec::max_activation_bytes, may_change},
    {"max_constant_bytes", &RunSpec::max_constant_bytes, may_change},
    {"seed", &RunSpec::seed},
    {"profile", &RunSpec::profile, may_change},
};

bool is_empty(const SettingValue& v) {
  if (const auto* s = std::get_if<std::string>(&v)) return s->empty();
  if (const auto* l = std::get_if<std::vector<std::string>>(&v)) return l->empty();
  return false;
}

std::optional<SettingValue> read_texts(const SettingValue& like, const std::vector<std::string>& texts) {
  if (std::holds_alternative<std::vector<std::string>>(like)) return texts;
  if (texts.size() != 1) return std::nullopt;
  if (std::holds_alternative<std::string>(like)) return texts[0];
  const auto as_value = [](const auto& v) { return v ? std::optional<SettingValue>(*v) : std::nullopt; };
  if (std::holds_alternative<bool>(like)) return as_value(parse_bool(texts[0]));
  if (std::holds_alternative<int64_t>(like)) return as_value(parse_integer(texts[0]));
  return as_value(parse_number(texts[0]));
}

nlohmann::json to_json(const SettingValue& v) {
  if (const auto* d = std::get_if<double>(&v)) {
    if (std::isinf(*d)) return number_text(*d);
    if (*d == std::floor(*d) && std::abs(*d) < 1e15) return static_cast<int64_t>(*d);
    return *d;
  }
  return std::visit([](const auto& x) { return nlohmann::json(x); }, v);
}

}  // namespace

std::span<const Setting> settings() { return kSettings; }

const Setting* find_setting(std::string_view name) {
  const auto* const it =
      std::find_if(std::begin(kSettings), std::end(kSettings), [&](const Setting& s) { return s.name == name; });
  return it == std::end(kSettings) ? nullptr : it;
}

const Setting& setting_named(std::string_view name) {
  const Setting* const s = find_setting(name);
  if (!s) bug(cat("no setting is called '", name, "'"));
  return *s;
}

SettingValue value_of(const RunSpec& spec, const Setting& setting) {
  return std::visit(
      [&](auto member) -> SettingValue {
        if constexpr (IsDefault<std::remove_cvref_t<decltype(spec.*member)>>::value) {
          return *(spec.*member);
        } else {
          return spec.*member;
        }
      },
      setting.member);
}

bool asked_for(const RunSpec& spec, const Setting& setting) {
  return std::visit(
      [&](auto member) {
        if constexpr (IsDefault<std::remove_cvref_t<decltype(spec.*member)>>::value) {
          return (spec.*member).asked();
        } else {
          return true;
        }
      },
      setting.member);
}

void set_value(RunSpec& spec, const Setting& setting, const SettingValue& value, bool asked) {
  std::visit(
      [&](auto member) {
        using M = std::remove_cvref_t<decltype(spec.*member)>;
        if constexpr (IsDefault<M>::value) {
          using T = std::remove_cvref_t<decltype(*(spec.*member))>;
          const T* v = std::get_if<T>(&value);
          if (!v) bug(cat("setting '", setting.name, "' given a value of another type"));
          if (asked) {
            spec.*member = *v;
          } else {
            (spec.*member).suggest(*v);
          }
        } else {
          const M* v = std::get_if<M>(&value);
          if (!v) bug(cat("setting '", setting.name, "' given a value of another type"));
          spec.*member = *v;
        }
      },
      setting.member);
}

bool suggest_texts(RunSpec& spec, const Setting& setting, const std::vector<std::string>& texts) {
  if (asked_for(spec, setting)) return false;
  const std::optional<SettingValue> v = read_texts(value_of(spec, setting), texts);
  if (!v) return false;
  set_value(spec, setting, *v, false);
  return true;
}

std::map<std::string, std::string> resume_record(const RunSpec& spec) {
  std::map<std::string, std::string> out;
  for (const Setting& s : settings()) {
    if (s.training && s.resume == Resume::same) out[std::string(s.name)] = value_text(value_of(spec, s));
  }
  for (const auto& [name, path] : input_files(spec)) {
    if (name == "model") {
      out[name] = model_sha256(path);
      continue;
    }
    const FileSum sum = sum_of_file(path);
    out[name] = sum.error ? path : cat(sum.size, " bytes of CRC-32C ", sum.crc32c);
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> input_files(const RunSpec& spec) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Setting& s : settings()) {
    if (s.resume != Resume::same_content) continue;
    const std::string path = value_text(value_of(spec, s));
    const bool folder = s.name == "tokenizer" && std::filesystem::is_directory(path);
    if (!path.empty()) out.emplace_back(s.name, folder ? find_tokenizer(path) : path);
  }
  return out;
}

std::vector<std::string> optimizer_names() { return update_rule_names(); }

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const ScheduleRow* row : schedule_rows()) names.emplace_back(row->name);
  return names;
}

bool optimizer_reads(const std::string& optimizer, std::string_view setting) {
  const std::vector<RuleKey> keys = rule_keys(optimizer);
  return std::any_of(keys.begin(), keys.end(), [&](const RuleKey& k) { return k.flag == setting; });
}

std::string settings_json(const RunSpec& spec) {
  nlohmann::json j = nlohmann::json::object();
  for (const Setting& s : settings()) {
    const SettingValue v = value_of(spec, s);
    if (s.training && s.recorded && !is_empty(v)) j[std::string(s.name)] = to_json(v);
  }
  // A path may hold bytes that are not UTF-8.
  return j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace amp
