// Reads text files: tables (CSV, TSV, JSON lines and others, data/table.h), CoNLL files of tagged words, SQuAD's JSON.
// read_table() applies the settings of tables: delimiter, label columns, label map, decimal marks. All readers of
// tables must call it, so that training, evaluation and `check_data` see the same cells.

#include "run/data/text_rows.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/fs.h"
#include "base/text.h"
#include "data/features/decimal.h"
#include "data/label_columns.h"
#include "data/label_spelling.h"
#include "data/text_file.h"
#include "data/tokenizer.h"
#include "run/data/bad_rows.h"
#include "run/data/data_kind.h"
#include "run/data/text_settings.h"
#include "run/settings/asked_objective.h"
#include "run/spec/spec.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

using nlohmann::ordered_json;

bool is_text_file(const std::string& path) {
  const std::vector<std::string> parts = split(path, ',');  // several files are of one kind
  const std::string last = parts.empty() ? "" : parts.back();
  const size_t dot = last.rfind('.');
  const std::string ext = dot == std::string::npos ? "" : last.substr(dot);
  return ext != ".safetensors" && ext != ".npz" && ext != ".npy";
}

bool names_tagged_words(const std::string& path) {
  const std::vector<std::string> files = split(path, ',');
  std::string last = files.empty() ? "" : files.back();
  if (last.ends_with(".gz")) last.resize(last.size() - 3);
  return last.ends_with(".conll");
}

RunSpec with_letters(RunSpec spec, const Log& log) {
  std::string file = tokenizer_path(spec);
  if (is_dir(file)) file = find_tokenizer(file);
  if (spec.data.text.lower_case.asked() || !file.ends_with(".txt") || !path_exists(file)) return spec;
  const std::unique_ptr<Tokenizer> vocabulary = open_tokenizer(file);
  int64_t capitals = 0;
  for (int64_t id = 0; id < vocabulary->size(); ++id) {
    const std::string_view token = vocabulary->token(static_cast<int32_t>(id));
    capitals +=
        !token.starts_with('[') && std::any_of(token.begin(), token.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  }
  // A few words with capitals are allowed: bert-base-chinese, which is uncased, contains <S> and <T>.
  if (capitals * 100 < vocabulary->size()) return spec;
  spec.data.text.lower_case.suggest(false);
  log.info(cat("tokenizer: ", with_thousands(capitals), " words of '", printable(file),
               "' have capital letters: texts keep theirs, and accents (`lower_case` true: not)"));
  return spec;
}

RunSpec with_conversations(RunSpec spec, const std::string& path, const Log& log) {
  const Task asked = requested_task(spec.objective);
  const Task task = has_answer_pairs(asked) || has_marked_answers(asked) ? asked : language_task(spec);
  const bool pairs = has_answer_pairs(task), marked = has_marked_answers(task);
  const bool given = spec.data.text.text_columns.asked() || !spec.data.text.text_columns->empty() ||
                     (spec.data.label_column.asked() && !marked);
  const bool open_task = *spec.objective.task == "auto" && requested_losses(spec.objective).parts.empty();
  if (path.empty() || given || data_kind(spec.data, path) != DataKind::text || names_tagged_words(path)) return spec;
  if (!open_task && !pairs && !marked && asked != Task::language && !is_language_model(spec)) return spec;
  const Table table = read_table(spec, path);
  const bool labeled = table.has_column(*spec.data.label_column);
  if (labeled && !marked) return spec;
  const std::vector<std::vector<std::string>> texts = {{"messages"}, {"conversations"}, {"prompt", "completion"}},
                                              answers = {{"prompt", "chosen", "rejected"}, {"chosen", "rejected"}},
                                              marks = {{"prompt", "completion"}};
  std::vector<std::vector<std::string>> usual = labeled ? marks : pairs || marked ? answers : texts;
  // If the label column is missing, columns of marked answers are chosen too: a later check reports the missing marks.
  if (marked && !labeled) usual.push_back(marks[0]);
  for (const std::vector<std::string>& columns : usual) {
    const auto present = [&](const std::string& c) { return table.has_column(c); };
    if (!std::all_of(columns.begin(), columns.end(), present)) continue;
    spec.data.text.text_columns.suggest(columns);
    if (open_task) spec.objective.task.suggest("language");
    log.info(cat("data: `text_columns` ", join(columns, ","), ", `task` ", name_of(task), ", because '",
                 printable(path), "' has ", columns.size() == 1 ? "this column" : "these columns",
                 labeled ? "" : " and no label", " (either setting overrules)"));
    break;
  }
  return spec;
}

static std::map<std::string, std::string> label_names(const std::vector<std::string>& pairs) {
  std::map<std::string, std::string> out;
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == pair.size())
      fail(Exit::usage, "E_USAGE", cat("`label_map` ", printable(pair), ": no two names"),
           "write `label_map` OLD=NEW, the flag again for another label");
    out[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return out;
}

Table read_table(const RunSpec& spec, const std::string& path) {
  TableOptions t;
  if (spec.data.delimiter != "auto" && !spec.data.delimiter.empty()) t.delimiter = spec.data.delimiter[0];
  if (spec.data.data_format != "auto") t.reader = spec.data.data_format;
  t.wanted = *spec.data.text.text_columns;
  for (const auto* list : {&*spec.data.tables.categorical, &*spec.data.tables.continuous, &*spec.data.tables.date})
    t.wanted.insert(t.wanted.end(), list->begin(), list->end());
  if (!spec.data.tables.target->empty()) t.wanted.push_back(*spec.data.tables.target);
  if (spec.data.label_column.asked()) {
    for (const std::string& column : split(*spec.data.label_column, ',')) t.wanted.push_back(column);
  }
  t.most_skipped = spec.data.skip_bad_rows;
  Table table = Table::read(path, t);
  skip_known_rows(spec, table);
  join_label_columns(table, *spec.data.label_column);
  const std::string& label = spec.data.tables.target->empty() ? *spec.data.label_column : *spec.data.tables.target;
  const TaskRule& task = task_rule(requested_task(spec.objective));
  // Only class names are trimmed; answers and target texts keep their spaces.
  const bool names = task.text == TextForm::columns;
  if (spec.data.trim_labels && names && table.has_column(label)) trim_labels(table, label);
  if (spec.data.tables.target->empty() &&
      (task.has_numbers() || (*spec.objective.task == "auto" && spec.data.decimal == "comma")))
    read_decimal_marks(table, decimal_mark(spec.data.decimal), {label});
  if (!spec.data.label_map.empty() && table.has_column(*spec.data.label_column))
    table.replace(table.column(*spec.data.label_column), label_names(spec.data.label_map));
  return table;
}

namespace {
void add_tagged(TextRows& rows, std::vector<TaggedText> more) {
  const int32_t file = rows.tagged.empty() ? 0 : rows.tagged.back().file + 1;
  for (TaggedText& t : more) {
    t.file = file;
    rows.tagged.push_back(std::move(t));
  }
}

void add_questions(TextRows& rows, AnswerKey more) {
  if (!rows.key) {
    rows.key = std::make_shared<AnswerKey>(std::move(more));
  } else {
    rows.key->append(std::move(more), rows.key->questions.back().file + 1);
  }
}
}  // namespace

TextRows read_text_rows(const RunSpec& spec, const std::string& path, Task task, bool labeled) {
  TextRows rows;
  rows.names = files_named(path);
  const std::vector<std::string>& columns = *spec.data.text.text_columns;
  const TextForm form = task_rule(task).text;
  const bool tagged = form == TextForm::tagged_words, questions = form == TextForm::questions,
             may_have_none = *spec.data.text.version_2_with_negative;
  if (!columns.empty() || (!tagged && !questions)) rows.table = read_table(spec, path);
  if (tagged && columns.size() > 1)
    fail(Exit::usage, "E_TEXT_COLUMNS", "tagged words are read from one column", "give one `text_columns`");
  if (questions && columns.size() == 1)
    fail(Exit::usage, "E_TEXT_COLUMNS", "questions about texts need two columns", "give `text_columns` QUESTION,TEXT");
  const std::string label = labeled ? *spec.data.label_column : std::string();
  if (rows.table) skip_malformed_texts(spec, task, label, *rows.table);
  if (tagged && rows.table) rows.tagged = tagged_rows(*rows.table, columns[0], label);
  if (questions && rows.table)
    rows.key = std::make_shared<AnswerKey>(question_rows(*rows.table, columns[0], columns[1], label, may_have_none));
  rows.left_out = SkippedRows(spec.data.skip_bad_rows);
  for (size_t f = 0; !rows.table && f < rows.names.size(); ++f) {
    const FileBytes bytes = read_text_file(rows.names[f]);
    if (tagged) add_tagged(rows, parse_conll(bytes.text(), rows.names[f], labeled, &rows.left_out));
    if (questions)
      add_questions(rows, parse_squad(bytes.text(), rows.names[f],
                                      !labeled        ? AnswersAre::unread
                                      : may_have_none ? AnswersAre::given_or_no
                                                      : AnswersAre::given,
                                      &rows.left_out));
  }
  skip_known_texts(spec, rows);
  return rows;
}

int64_t TextRows::size() const {
  if (key) return static_cast<int64_t>(key->questions.size());
  return table ? table->rows() : static_cast<int64_t>(tagged.size());
}

std::vector<std::string> TextRows::columns() const {
  if (table) return table->columns();
  if (key) return {"id", "question"};
  for (const TaggedText& t : tagged) {
    if (!t.tags.empty()) return {"words", "tags"};
  }
  return {"words"};
}

std::vector<ordered_json> TextRows::cells(int64_t row) const {
  std::vector<ordered_json> out;
  for (size_t c = 0; table && c < table->columns().size(); ++c) {
    if (!table->has(row, c)) {
      out.emplace_back(nullptr);
    } else if (table->is_json(row, c)) {
      out.push_back(ordered_json::parse(table->json(row, c)));
    } else if (table->is_literal(row, c)) {
      out.push_back(ordered_json::parse(table->text(row, c)));
    } else {
      out.emplace_back(std::string(table->text(row, c)));
    }
  }
  if (table) return out;
  const auto r = static_cast<size_t>(row);
  if (key) return {key->questions[r].id, key->questions[r].text};
  out.emplace_back(tagged[r].words);
  if (columns().size() > 1)
    out.push_back(tagged[r].tags.empty() ? ordered_json(nullptr) : ordered_json(tagged[r].tags));
  return out;
}

}  // namespace amp
