// Finds rows that may be skipped. Each function applies the checks of readers and datasets to one row after the other.
// If no rows may be skipped, it does nothing: the readers and datasets then report the error. Images are decoded once
// per run, because a dataset decodes them only when a batch needs them.
#include "run/data/bad_rows.h"

#include <algorithm>
#include <functional>
#include <mutex>

#include "base/activity.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "data/features/dates.h"
#include "data/features/forms.h"
#include "data/image_files.h"
#include "data/image_store.h"
#include "data/images/decoder.h"
#include "data/label_columns.h"
#include "data/labels.h"
#include "data/language/language.h"
#include "data/language/marked_answers.h"
#include "data/parallel.h"
#include "data/questions.h"
#include "data/tagged_text.h"
#include "run/data/data.h"
#include "run/data/data_kind.h"
#include "run/data/features.h"
#include "run/data/images.h"
#include "run/data/language_data.h"
#include "run/data/text_rows.h"
#include "run/data/text_settings.h"
#include "run/spec/spec.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

constexpr size_t kMostListed = 20;  // number of skipped rows that are logged; run.json lists all of them

bool cells_hold(LabelForm form) {
  return form == LabelForm::classes || form == LabelForm::numbers || form == LabelForm::sets;
}

// Returns the check of a label, for tasks whose labels are the cells of a column; nullopt for other tasks.
std::optional<LabelCheck> label_check(const RunSpec& spec, Task task, const Table& table, const ClassNames& classes) {
  const TaskRule& rule = task_rule(task);
  const LabelForm form = rule.labels.value_or(LabelForm::classes);
  if (!cells_hold(form) || rule.has_masks() || rule.writes_text()) return std::nullopt;
  return LabelCheck(table, *spec.data.label_column, form, classes);
}

// Throws the error of decoding an image or its mask.
void decode(const ImageStore& store, const std::string& path, const std::string& mask) {
  const Image image = store.read(path, 3);
  if (mask.empty()) return;
  const FileBytes file = read_file(mask, Exit::data);
  const Image classes = decode_image({file.text(), mask, true});
  if (classes.width != image.width || classes.height != image.height)
    fail(Exit::data, "E_MASK",
         cat("'", printable(mask), "' is ", classes.width, " x ", classes.height, " pixels, its image ", image.width,
             " x ", image.height));
}

}  // namespace

RunSpec with_skipping(RunSpec spec, const std::vector<std::string>& paths) {
  if (spec.data.skip_bad_rows == 0) return spec;
  spec.data.skipped = std::make_shared<std::map<std::pair<std::string, int64_t>, std::string>>();
  auto bad = std::make_shared<std::map<std::string, std::string>>();
  for (const std::string& path : paths) {
    if (path.empty() || data_kind(spec.data, path) != DataKind::images) continue;
    const RunSpec reading = path == spec.data.val && path != spec.data.train ? validation_spec(spec) : spec;
    const Table table = read_image_table(reading, path);
    const std::vector<std::string> files =
        image_paths(table, image_path_column(reading.data.images), reading.data.images.image_root);
    const std::vector<std::string> masks =
        reading.data.images.train_masks.empty()
            ? std::vector<std::string>(files.size())
            : image_paths(table, *reading.data.label_column, reading.data.images.image_root);
    const ImageStore store(files);
    std::mutex adding;
    Activity decoding("decoding images", "images", std::ssize(files));
    for_each_on(spec.data.images.loading_threads, std::ssize(files), [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      try {
        decode(store, files[at], masks[at]);
      } catch (const Error& e) {
        if (e.exit() != Exit::data) throw;
        const std::lock_guard hold(adding);
        bad->emplace(files[at], e.fact());
      }
      decoding.add(1);
    });
  }
  spec.data.images.unreadable = std::move(bad);
  return spec;
}

void skip_known_rows(const RunSpec& spec, Table& table) {
  if (!spec.data.skipped || spec.data.skipped->empty()) return;
  table.skip_failing([&](int64_t row) {
    const auto known = spec.data.skipped->find({table.names()[static_cast<size_t>(table.file(row))], table.line(row)});
    if (known != spec.data.skipped->end()) fail(Exit::data, "E_DATA_LABEL", known->second);
  });
}

void skip_bad_images(const RunSpec& spec, Table& table) {
  if (spec.data.skip_bad_rows == 0) return;
  table.allow_skipped(spec.data.skip_bad_rows);
  skip_known_rows(spec, table);
  const auto& unreadable = spec.data.images.unreadable;
  const std::string column = image_path_column(spec.data.images);
  table.column(column);
  table.skip_failing([&](int64_t row) {
    const std::string path = image_path(table, row, column, spec.data.images.image_root);
    const auto bad = unreadable ? unreadable->find(path) : std::map<std::string, std::string>::const_iterator();
    if (unreadable && bad != unreadable->end()) fail(Exit::data, "E_IMAGE", bad->second);
  });
}

void skip_bad_labels(const RunSpec& spec, Task task, Table& table) {
  if (spec.data.skip_bad_rows == 0 || !joined_labels(table, *spec.data.label_column).empty()) return;
  const ClassNames given = *spec.data.labels;
  if (const auto check = label_check(spec, task, table, given)) table.skip_failing(*check);
}

void skip_unknown_labels(const RunSpec& spec, const DataNeeds& needs, Table& table) {
  if (spec.data.skip_bad_rows == 0 || !needs.labeled) return;
  if (const auto check = label_check(spec, needs.task, table, needs.classes)) table.skip_failing(*check);
}

void skip_malformed_texts(const RunSpec& spec, Task task, const std::string& label, Table& table) {
  const TextForm form = task_rule(task).text;
  const std::vector<std::string>& columns = *spec.data.text.text_columns;
  if (spec.data.skip_bad_rows == 0 || (form != TextForm::tagged_words && form != TextForm::questions)) return;
  for (const std::string& c : columns) table.column(c);  // a missing column is an error of the table and not of one row
  if (!label.empty()) table.column(label);
  if (form == TextForm::tagged_words)
    table.skip_failing([&](int64_t row) { tagged_row(table, row, columns.at(0), label); });
  if (form != TextForm::questions) return;
  const bool may_have_none = *spec.data.text.version_2_with_negative;
  table.skip_failing([&](int64_t row) {
    AnswerKey key;
    add_question_row(table, row, columns.at(0), columns.at(1), label, may_have_none, key);
  });
}

// Leaves out tagged texts of CoNLL files for which check() throws. At least one text is kept.
static void skip_failing_texts(TextRows& rows, const std::function<void(const TaggedText&)>& check) {
  std::vector<TaggedText> kept;
  for (TaggedText& text : rows.tagged) {
    try {
      check(text);
      kept.push_back(std::move(text));
    } catch (const Error& e) {
      if (kept.empty() && &text == &rows.tagged.back()) throw;
      rows.left_out.add(e, rows.names[static_cast<size_t>(text.file)], text.line);
    }
  }
  rows.tagged = std::move(kept);
}

void skip_known_texts(const RunSpec& spec, TextRows& rows) {
  if (rows.table || rows.tagged.empty() || !spec.data.skipped || spec.data.skipped->empty()) return;
  skip_failing_texts(rows, [&](const TaggedText& text) {
    const auto known = spec.data.skipped->find({rows.names[static_cast<size_t>(text.file)], text.line});
    if (known != spec.data.skipped->end()) fail(Exit::data, "E_DATA_LABEL", known->second);
  });
}

void skip_unknown_tags(const RunSpec& spec, const DataNeeds& needs, TextRows& rows) {
  if (spec.data.skip_bad_rows == 0 || !needs.labeled || rows.tagged.empty()) return;
  const LabelIndex index(needs.classes);
  if (!rows.table) {
    skip_failing_texts(rows,
                       [&](const TaggedText& text) { require_known_tags(text, rows.names, index, needs.classes); });
    return;
  }
  const std::vector<int64_t> left = rows.table->skip_failing([&](int64_t row) {
    require_known_tags(rows.tagged[static_cast<size_t>(row)], rows.names, index, needs.classes);
  });
  if (left.empty()) return;
  std::vector<TaggedText> kept;
  for (const int64_t row : left) kept.push_back(std::move(rows.tagged[static_cast<size_t>(row)]));
  rows.tagged = std::move(kept);
}

void skip_bad_texts(const RunSpec& spec, const DataNeeds& needs, Table& table) {
  if (spec.data.skip_bad_rows == 0) return;
  const TaskRule& rule = task_rule(needs.task);
  if (rule.text == TextForm::tagged_words || rule.text == TextForm::questions) return;
  if (rule.text == TextForm::own_tokens) {
    const std::unique_ptr<Tokenizer> tokenizer =
        open_tokenizer(tokenizer_path(spec), tokenizer_options(spec.data.text));
    const std::shared_ptr<const ChatTemplate> chat = chat_template_of(spec, *tokenizer);
    std::vector<LanguageReader> readers;
    for (const LanguageOptions& side : answer_options_of(needs.labeled ? needs.task : Task::language, table,
                                                         language_options(spec, *spec.data.text.max_seq_len)))
      readers.emplace_back(table, *tokenizer, chat, side);
    const bool marks = needs.labeled && reads_marks(spec.data, needs.task);
    const size_t mark = marks ? table.column(*spec.data.label_column) : 0;
    table.skip_failing([&](int64_t row) {
      for (const LanguageReader& reader : readers) reader.read(row);
      if (marks) read_mark(table, row, mark);
    });
    return;
  }
  std::vector<size_t> columns;
  for (const std::string& c : *spec.data.text.text_columns) columns.push_back(table.column(c, needs.column_hint));
  table.skip_failing([&](int64_t row) {
    for (const size_t c : columns) table.text(row, c);
  });
  if (!needs.sides || !needs.labels.empty()) skip_unknown_labels(spec, needs, table);
}

void skip_bad_features(const RunSpec& spec, Task task, const Features* fitted, const ClassNames& classes, bool labeled,
                       FeatureTable& table) {
  if (spec.data.skip_bad_rows == 0) return;
  std::vector<std::string> numbers = *spec.data.tables.continuous, dates = *spec.data.tables.date;
  if (fitted) {
    dates = fitted->dates;
    numbers.clear();
    for (const NumberMap& n : fitted->numbers) numbers.push_back(n.column);
  }
  for (const std::string& name : dates) {
    const FeatureColumn column = table.column(name);
    table.skip_failing([&](int64_t row) {
      const std::string_view text = column.texts[static_cast<size_t>(row)];
      if (!text.empty() && !parse_date(text))
        fail(Exit::data, "E_DATA_DATE", cat(table.where(row, name), ": '", printable(text), "' is no date"));
    });
  }
  for (const std::string& name : numbers) {
    if (table.part(name)) continue;
    const FeatureColumn column = table.column(name);
    table.skip_failing([&](int64_t row) { cell_number(table, name, column.texts[static_cast<size_t>(row)], row); });
  }
  if (!labeled) return;
  const std::string target = fitted ? fitted->target : target_column(spec.data);
  if (!task_rule(task).has_numbers()) {
    table.skip_failing(LabelCheck(table.table(), target, LabelForm::classes, classes));
    return;
  }
  const TargetTransform transform{target_names().value_of(*spec.data.tables.target_transform)};
  const FeatureColumn column = table.column(target);
  table.skip_failing([&](int64_t row) {
    target_number(table, target, column.texts[static_cast<size_t>(row)], row,
                  fitted ? fitted->target_transform : transform);
  });
}

static void report_skipped(const RunSpec& spec, const std::string& name, int64_t left, const char* unit,
                           const std::vector<SkippedRow>& skipped, const DataNeeds& needs) {
  if (skipped.empty()) return;
  needs.log.note(cat("'", printable(name), "': ", with_thousands(std::ssize(skipped)), " of ",
                     with_thousands(left + std::ssize(skipped)), " ", unit, " are skipped (`skip_bad_rows` ",
                     spec.data.skip_bad_rows, ")"));
  for (size_t i = 0; i < std::min(skipped.size(), kMostListed); ++i)
    needs.log.note(cat("skipped: ", skipped[i].reason));
  if (skipped.size() > kMostListed)
    needs.log.note(cat("and ", skipped.size() - kMostListed, " more, which run.json lists"));
  for (const SkippedRow& row : skipped) {
    if (spec.data.skipped) spec.data.skipped->emplace(std::pair{row.file, row.line}, row.reason);
  }
  if (needs.skipped) needs.skipped->insert(needs.skipped->end(), skipped.begin(), skipped.end());
}

void report_skipped(const RunSpec& spec, const Table& table, const DataNeeds& needs) {
  report_skipped(spec, table.name(), table.rows(), "rows", table.skipped(), needs);
}

void report_skipped(const RunSpec& spec, const TextRows& rows, const DataNeeds& needs) {
  if (rows.table) return report_skipped(spec, *rows.table, needs);
  report_skipped(spec, rows.names.at(0), rows.size(), rows.key ? "questions" : "texts", rows.left_out.rows(), needs);
}

}  // namespace amp
