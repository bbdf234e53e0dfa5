// `check_data` for text files; tables of features and images are in check_features.cc and check_images.cc. Each row is
// read and tokenized once. Duplicates, and texts with two labels, are found by a hash map of all texts, which stays in
// memory. A row's error (Exit::data) is reported as a problem and the check continues with the next file.

#include "run/check/check_data.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>

#include "base/activity.h"
#include "base/number_text.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "data/labels.h"
#include "data/language/marked_answers.h"
#include "run/check/check_features.h"
#include "run/check/check_images.h"
#include "run/data/data.h"
#include "run/data/language_data.h"
#include "run/data/repeated_files.h"
#include "run/model/model_file.h"
#include "run/model/table_model.h"
#include "run/prepare/objective.h"
#include "run/settings/asked_objective.h"
#include "run/spec/spec.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

// Texts and labels of a row, for all kinds of files.
struct Row {
  std::vector<std::string> texts;
  std::vector<std::string> labels;  // the label of the row, or the tags of its words
  std::string where;
};

class Checker {
 public:
  Checker(const RunSpec& spec, Task task, DataReport& report)
      : spec_(spec), task_(task), rule_(task_rule(task)), report_(report) {
    if (const std::string path = tokenizer_path(spec); !path.empty())
      tokenizer_ = open_tokenizer(path, tokenizer_options(spec.data.text));
  }

  void file(const RunSpec& spec, const std::string& path, bool training) {
    report_.files.emplace_back();
    FileReport& f = report_.files.back();
    f.name = path;
    try {
      RunSpec all = spec;
      all.data.skip_bad_rows = std::numeric_limits<int64_t>::max();  // the report lists the bad rows
      const TextRows rows = read_text_rows(all, path, task_);
      f.rows = rows.size();
      report_.skipped(rows.table ? rows.table->skipped() : rows.left_out.rows());
      table_ = rows.table ? &*rows.table : nullptr;
      if (rows.table) report_.notes(rows.table->notes());
      language_.clear();
      if (rule_.text == TextForm::own_tokens && tokenizer_) open_readers(spec, *rows.table);
      std::vector<int64_t> lengths(static_cast<size_t>(f.rows));
      Activity checking("checking rows", "rows", f.rows);
      for (int64_t r = 0; r < f.rows; ++r) {
        row(read(spec.data, rows, r), r, training, f, lengths[static_cast<size_t>(r)]);
        checking.add(1);
      }
      sum_up(std::move(lengths), f);
      if (training) known_ = f.labels;
      if (training) report_.check_spelling(f);
    } catch (const Error& e) {
      if (e.exit() != Exit::data) throw;
      problem(path, e.fact());
    }
  }

 private:
  void open_readers(const RunSpec& spec, const Table& table) {
    const LanguageOptions options = language_options(spec, 0);
    const auto chat = chat_template_of(spec, *tokenizer_);
    for (const LanguageOptions& answer : answer_options_of(task_, table, options))
      language_.push_back(std::make_unique<LanguageReader>(table, *tokenizer_, chat, answer));
    marks_.reset();
    if (reads_marks(spec.data, task_)) marks_ = table.column(*spec.data.label_column);
  }

  void problem(const std::string& where, const std::string& what) { report_.problem(where, what); }

  Row read(const DataSpec& data, const TextRows& rows, int64_t r) const {
    const auto i = static_cast<size_t>(r);
    const auto place = [&](int32_t file, int64_t line) {
      return cat(rows.names.at(static_cast<size_t>(file)), ":", line);
    };
    if (rows.key) {
      const Question& q = rows.key->questions[i];
      return {{q.text, rows.key->passages[q.passage]}, {}, place(q.file, q.line)};
    }
    if (rule_.text == TextForm::tagged_words) {
      const TaggedText& t = rows.tagged[i];
      return {{join(t.words, " ")}, t.tags, place(t.file, t.line)};
    }
    const Table& table = *rows.table;
    Row out{{}, {}, table.where(r)};
    for (const std::string& name : *data.text.text_columns) {
      const size_t c = table.column(name);
      out.texts.emplace_back(table.is_json(r, c) ? table.json(r, c)
                             : table.has(r, c)   ? table.text(r, c)
                                                 : std::string_view());
    }
    if (rule_.writes_text() || rule_.embeddings) return out;
    const size_t c = table.column(*data.label_column);
    if (table.has(r, c)) out.labels.emplace_back(table.is_json(r, c) ? table.json(r, c) : table.text(r, c));
    return out;
  }

  void row(const Row& row, int64_t r, bool training, FileReport& f, int64_t& length) {
    for (const std::string& t : row.texts) {
      if (t.find_first_not_of(" \t\r\n") == std::string::npos) problem(row.where, "the text is empty");
    }
    const bool classes = rule_.has_classes() || rule_.labels == LabelForm::tokens;
    if (rule_.has_classes() && (row.labels.empty() || row.labels[0].empty())) problem(row.where, "there is no label");
    if (rule_.has_numbers() && !row.labels.empty()) number(row);
    for (const std::string& label : row.labels) {
      if (!classes) break;
      ++f.labels[label];
      if (!training && !known_.empty() && !known_.count(label))
        problem(row.where, cat("the label '", printable(label), "' is not in the training data"));
    }
    // The first row with a text is stored with its label and location, so that the report can name it.
    const std::string text = join(row.texts, "\x1f"), label = join(row.labels, "\x1f");
    const auto [seen, fresh] = (training ? training_ : validation_).emplace(text, std::pair{label, row.where});
    if (!fresh) {
      ++f.duplicates;
      if (seen->second.first != label)
        problem(row.where, cat("the text of ", seen->second.second, " has another label here"));
    }
    if (!training) report_.in_both += training_.count(text) > 0;
    if (!tokenizer_) return;
    if (marks_) mark(row, r);
    for (const std::unique_ptr<LanguageReader>& reader : language_) learnt(*reader, row, r, length);
    if (!language_.empty()) return;
    if (rule_.text == TextForm::source_and_target && row.texts.size() == 2) {
      const auto source = static_cast<int64_t>(
                     tokenizer_->encode(*spec_.data.language.source_prefix + row.texts[0]).ids.size()),
                 target = static_cast<int64_t>(tokenizer_->encode(row.texts[1]).ids.size());
      const int64_t most = *spec_.data.text.max_seq_len, most_target = longest_target(spec_.data);
      f.cut += (most > 0 && source > most) || (most_target > 0 && target > most_target);
      length = std::max(source, target);
      return;
    }
    const Encoding e = row.texts.size() == 2 ? tokenizer_->encode_pair(row.texts[0], row.texts[1])
                                             : tokenizer_->encode(row.texts.at(0));
    length = static_cast<int64_t>(e.ids.size());
  }

  void mark(const Row& row, int64_t r) {
    try {
      read_mark(*table_, r, *marks_);
    } catch (const Error& e) {
      problem(row.where, e.fact());
    }
  }

  void learnt(const LanguageReader& reader, const Row& row, int64_t r, int64_t& length) {
    try {
      const LabeledText t = reader.read(r);
      const auto n = static_cast<int64_t>(t.encoding.ids.size()), most = *spec_.data.text.max_seq_len;
      length = std::max(length, n);  // of two answers, the longer one counts
      int64_t first = 1;             // the first token whose prediction is trained
      while (first < n && t.labels[static_cast<size_t>(first)] == kIgnoreIndex) ++first;
      if (n > 0 && first == n) problem(row.where, "there is no answer to learn");
      if (most > 0 && first >= most && first < n)
        problem(row.where, cat("the answer begins at token ", first, ", beyond `max_seq_len`"));
    } catch (const Error& e) {
      if (e.exit() != Exit::data) throw;
      problem(row.where, e.fact());
    }
  }

  void number(const Row& row) {
    const std::optional<double> v = parse_number(row.labels[0]);
    if (!v) problem(row.where, cat("the label '", printable(row.labels[0]), "' is not a number"));
  }

  void sum_up(std::vector<int64_t> lengths, FileReport& f) const {
    if (!tokenizer_ || lengths.empty()) return;
    std::sort(lengths.begin(), lengths.end());
    f.shortest = lengths.front();
    f.median = lengths[lengths.size() / 2];
    f.longest = lengths.back();
    for (int64_t below = 0, to = 16; below < f.longest; below = to, to *= 2) {
      const auto begin = std::upper_bound(lengths.begin(), lengths.end(), below);
      f.lengths.emplace_back(to, std::upper_bound(begin, lengths.end(), to) - begin);
    }
    const int64_t most = *spec_.data.text.max_seq_len;
    if (most > 0 && rule_.text != TextForm::source_and_target)
      f.cut = lengths.end() - std::upper_bound(lengths.begin(), lengths.end(), most);
  }

  const RunSpec& spec_;
  Task task_;
  const TaskRule& rule_;
  DataReport& report_;
  std::unique_ptr<Tokenizer> tokenizer_;
  // Readers of the current file if its labels are the tokens of the text itself: one reader, or two for pairs of
  // answers.
  std::vector<std::unique_ptr<LanguageReader>> language_;
  const Table* table_ = nullptr;  // the table of the current file
  std::optional<size_t> marks_;   // the table's column of marks, if its answers are marked
  std::map<std::string, int64_t> known_;
  // key: text; value: label and location of the first row with this text
  using Seen = std::unordered_map<std::string, std::pair<std::string, std::string>>;
  Seen training_, validation_;
};

Task task_of_data(const RunSpec& spec) {
  if (const Task asked = requested_task(spec.objective); asked != Task::none) return asked;
  if (const Task head = task_from_name(spec.model.head); head != Task::none) return head;
  return wants_sides(spec.objective) ? sides_task(spec.objective) : text_task(spec);
}

}  // namespace

DataReport check_data(const RunSpec& given, const Log& log) {
  RunSpec named = given;
  named.data.skip_bad_rows = 0;  // no row is skipped, because all problems are reported
  if (wants_table_model(named)) named = with_table_target(std::move(named));
  if (!named.model.model.empty()) named.model.model = model_file(named.model.model, log);
  const RunSpec spec = with_conversations(with_letters(named, log), named.data.train, log);
  note_repeated_files(spec, log);
  const DataKind kind = data_kind(spec.data, spec.data.train);
  if (kind == DataKind::tensors)
    fail(Exit::usage, "E_USAGE", "`check_data` reads text files, tables and images, but `train` names tensors",
         "`dry_run` reads tensors and reports what is missing");
  if (kind == DataKind::features) return check_features(spec, log);
  DataReport report;
  Task task = Task::classification;
  try {
    task = task_of_data(spec);
  } catch (const Error& e) {  // not reported here: reading the file reports the error again, with its line
    if (e.exit() != Exit::data) throw;
  }
  if (kind == DataKind::images) return check_images(spec, task);
  if (spec.data.text.text_columns->empty() && task_rule(task).from_table())
    fail(Exit::usage, "E_USAGE", "text data needs `text_columns`", "name the column that holds the text");
  report.task = name_of(task);
  Checker checker(spec, task, report);
  checker.file(spec, spec.data.train, true);
  if (!spec.data.val.empty()) checker.file(validation_spec(spec), spec.data.val, false);
  return report;
}

}  // namespace amp
