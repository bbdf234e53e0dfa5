// Metadata of trained models. A record (trainer/tasks/model_record.h) holds losses, task, classes, preprocessing and
// ranges of the data. Preprocessing is a list of settings by kind of data and task. A new setting that changes how data
// are read must be added to one of the lists below. Otherwise evaluation reads data differently from training.

#include "run/model/model_metadata.h"

#include <algorithm>
#include <limits>

#include "base/setting_name.h"
#include "base/text.h"
#include "data/class_names.h"
#include "data/language/marked_answers.h"
#include "run/data/data.h"
#include "run/data/features.h"
#include "run/data/tokenize.h"
#include "run/settings/settings.h"
#include "run/spec/spec.h"
#include "trainer/losses/loss_text.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

const char* const kTextSettings[] = {"text_columns", "label_column", "max_seq_len", "lower_case"};
const char* const kImageSettings[] = {"eval_transforms", "image_sizes", "image_column", "mask_values", "mask_ignore"};
const char* const kTableSettings[] = {"categorical", "continuous", "date", "target", "target_transform"};
const char* const kLanguageSettings[] = {"packing", "train_on", "append_eos", "doc_stride"};
const char* const kSeq2SeqSettings[] = {"source_prefix", "max_target_length", "decoder_start_token"};
const char* const kMaskingSettings[] = {"mlm_probability", "whole_word_mask"};
const char* const kSpanSettings[] = {"doc_stride", "max_answer_length", "version_2_with_negative",
                                     "null_score_diff_threshold"};

bool all_fit(Task task, const std::vector<LossSpec>& losses) {
  return std::all_of(losses.begin(), losses.end(), [&](const LossSpec& s) { return fits(task, s); });
}

}  // namespace

ModelRecord record_of(const RunSpec& spec, const Objective& objective, Task task, DataKind kind, InputRanges ranges,
                      const Features* features) {
  ModelRecord r;
  r.task = kind != DataKind::tensors ? task : objective.task;
  if (const char* const other = task_rule(r.task).recorded_as; *other) r.task = Task(other);
  r.labels = objective.classes;
  r.losses = objective.losses.parts;
  r.ranges = std::move(ranges);
  if (kind == DataKind::tensors) return r;
  const auto keep = [&](const char* name) {
    const SettingValue v = value_of(spec, setting_named(name));
    const auto* list = std::get_if<std::vector<std::string>>(&v);
    const std::vector<std::string> texts = list ? *list : std::vector<std::string>{value_text(v)};
    if (!texts.empty() && !texts[0].empty()) r.preprocessing[name] = texts;
  };
  if (kind == DataKind::features) {
    for (const char* name : kTableSettings) keep(name);
    r.preprocessing["target"] = {features->target};
    r.features = features->json();
    return r;
  }
  if (kind == DataKind::images) {
    for (const char* name : kImageSettings) keep(name);
    keep("label_column");
    return r;
  }
  for (const char* name : kTextSettings) keep(name);
  // The data are pairs of answers, but the recorded task has other columns.
  if (r.task != task && are_pairs(*spec.data.text.text_columns)) r.preprocessing.erase("text_columns");
  if (const std::string sum = tokenizer_sum(spec); !sum.empty()) r.preprocessing["tokenizer_sum"] = {sum};
  const TextForm text = task_rule(task).text;
  if (text == TextForm::questions) {
    for (const char* name : kSpanSettings) keep(name);
  }
  if (text == TextForm::source_and_target) {
    for (const char* name : kSeq2SeqSettings) keep(name);
  }
  if (text == TextForm::own_tokens) {
    for (const char* name : kLanguageSettings) keep(name);
    if (is_masked_language_model(spec)) {
      for (const char* name : kMaskingSettings) keep(name);
    }
  }
  return r;
}

std::shared_ptr<const Features> recorded_features(const ModelRecord& record) {
  if (record.features.empty())
    fail(Exit::usage, "E_FEATURES_MISSING", "the model does not say how a table's columns become its inputs",
         "use a model that this program trained on a table, or feed it tensors");
  return std::make_shared<const Features>(Features::parse(record.features));
}

std::shared_ptr<const Features> features_of(const DataSpec& data, const ModelRecord& record, const Log& log) {
  if (!record.features.empty() || data.tables.continuous->empty() || !data.tables.categorical->empty())
    return recorded_features(record);
  Features out;
  out.target = target_column(data);
  for (const std::string& column : *data.tables.continuous) {
    NumberMap number;
    number.column = column;
    number.fill = std::numeric_limits<double>::quiet_NaN();  // a missing number makes outputs NaN
    number.scaling = Scaling::none;
    out.numbers.push_back(std::move(number));
  }
  log.note(cat("the model records no features: ", some_of(*data.tables.continuous),
               " are fed as they are, without scaling, in this order (`continuous` chooses columns)"));
  return std::make_shared<const Features>(std::move(out));
}

ModelRecord recorded(const ModelDoc& doc) {
  return from_metadata([&](const std::string& key) { return model_metadata(doc, key); });
}

bool never_trained(const ModelDoc& doc) {
  return model_metadata(doc, kWeightsKey) == kDrawnWeights && recorded(doc).losses.empty();
}

RunSpec with_recorded(RunSpec spec, const ModelRecord& record, const Log& log) {
  std::vector<std::string> taken;
  const auto offer = [&](const char* name, const std::vector<std::string>& texts) {
    if (suggest_texts(spec, setting_named(name), texts))
      taken.push_back(cat(setting_name(name), " ", printable(join(texts, ","))));
  };
  std::vector<LossSpec> losses = record.losses;
  // `output` replaces the recorded outputs of the losses.
  if (!spec.model.output.empty()) {
    for (LossSpec& s : losses) s.outputs.clear();
  }
  if (!losses.empty() && all_fit(task_from_name(*spec.objective.task), losses)) {
    std::vector<std::string> texts;
    for (const LossSpec& s : losses) texts.push_back(loss_json(s));
    offer("loss", texts);
  }
  // The recorded task is used only if it fits the given losses.
  if (record.task != Task::none && !spec.objective.task.asked()) {
    std::vector<std::string> texts = *spec.objective.loss;
    std::erase(texts, "auto");
    if (all_fit(record.task, parse_losses(texts))) offer("task", {name_of(record.task)});
  }
  const auto recorded_text = [&](const char* name) {
    const auto it = record.preprocessing.find(name);
    if (it == record.preprocessing.end()) return;
    const bool count = std::holds_alternative<int64_t>(value_of(spec, setting_named(name)));
    const bool negative = it->second.size() == 1 && it->second[0].starts_with('-');
    if (count && negative && it->first != "mask_ignore")
      return;  // invalid record: among these numbers, only mask_ignore may be negative
    offer(name, it->second);
  };
  for (const char* name : kTextSettings) recorded_text(name);
  for (const char* name : kSpanSettings) recorded_text(name);
  for (const char* name : kLanguageSettings) {
    if (name != std::string_view("doc_stride")) recorded_text(name);  // doc_stride is also in kSpanSettings
  }
  for (const char* name : kSeq2SeqSettings) recorded_text(name);
  for (const char* name : kMaskingSettings) recorded_text(name);
  for (const char* name : kImageSettings) recorded_text(name);
  for (const char* name : kTableSettings) recorded_text(name);
  if (!taken.empty()) log.info(cat("from the model's metadata (flags overrule it): ", join(taken, " ")));
  return spec;
}

void check_ranges(const InputRanges& trained, const InputRanges& given, const std::string& file, const Log& log) {
  for (const std::string& w : compare_ranges(trained, given, file)) log.warning(w);
}

}  // namespace amp
