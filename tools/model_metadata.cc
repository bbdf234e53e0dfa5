#include "tools/model_metadata.h"

#include <algorithm>
#include <iostream>

#include "base/text.h"
#include "tools/cli/values.h"
#include "trainer/loss_text.h"

namespace amp {

namespace {

const char* const kTextFlags[] = {"text_columns", "label_column", "max_seq_len", "lower_case"};
const char* const kSpanFlags[] = {"doc_stride", "max_answer_length"};

bool known_task(Task task) {
  const auto& choices = cli::flag_named("task").choices;
  return task != Task::none && std::find(choices.begin(), choices.end(), name_of(task)) != choices.end();
}

}  // namespace

ModelRecord record_of(const cli::Options& opts, const Objective& objective, Task task, bool text, InputRanges ranges) {
  ModelRecord r;
  r.task = text ? task : objective.task;
  r.labels = objective.classes;
  r.losses = objective.losses.parts;
  r.ranges = std::move(ranges);
  if (!text) return r;
  const auto keep = [&](const char* flag) {
    if (!opts.has(flag)) return;
    const cli::Value& v = opts.value(flag);
    const auto* list = std::get_if<std::vector<std::string>>(&v);
    r.preprocessing[flag] = list ? *list : std::vector<std::string>{cli::value_text(v)};
  };
  for (const char* flag : kTextFlags) keep(flag);
  if (task == Task::span) {
    for (const char* flag : kSpanFlags) keep(flag);
  }
  return r;
}

ModelRecord recorded(const ModelDoc& doc) {
  return from_metadata([&](const std::string& key) { return model_metadata(doc, key); });
}

cli::Options with_recorded(cli::Options opts, const ModelRecord& record) {
  std::vector<std::string> taken;
  const auto offer = [&](const std::string& flag, std::vector<std::string> texts) {
    const std::string shown = join(texts, ",");
    if (opts.was_set(flag) || !opts.offer(flag, std::move(texts), cli::Source::preset, "the model's metadata")) return;
    taken.push_back(cat("--", flag, " ", printable(shown)));
  };
  const auto all_fit = [](Task task, const std::vector<LossSpec>& losses) {
    return std::all_of(losses.begin(), losses.end(), [&](const LossSpec& s) { return fits(task, s); });
  };
  const Task asked = task_from_name(opts.str("task"));
  std::vector<LossSpec> losses = record.losses;
  if (opts.has("output")) {
    for (LossSpec& s : losses) s.outputs.clear();
  }
  if (!opts.was_set("loss") && !losses.empty() && all_fit(asked, losses)) {
    std::vector<std::string> texts;
    for (const LossSpec& s : losses) texts.push_back(loss_json(s));
    offer("loss", texts);
  }
  if (known_task(record.task) && !opts.was_set("task")) {
    std::vector<std::string> texts = opts.list("loss");
    std::erase(texts, "auto");
    if (all_fit(record.task, parse_losses(texts))) offer("task", {name_of(record.task)});
  }
  const auto flag = [&](const char* name) {
    const auto it = record.preprocessing.find(name);
    if (it != record.preprocessing.end()) offer(name, it->second);
  };
  for (const char* name : kTextFlags) flag(name);
  for (const char* name : kSpanFlags) flag(name);
  if (!taken.empty() && !opts.flag("quiet"))
    std::cerr << "from the model's metadata (flags overrule it): " << join(taken, " ") << '\n';
  return opts;
}

void check_ranges(const InputRanges& trained, const InputRanges& given, const std::string& file) {
  for (const std::string& w : compare_ranges(trained, given, file)) std::cerr << "warning: " << w << '\n';
}

}  // namespace amp
