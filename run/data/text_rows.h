// The rows of a text file as a task reads them, and as they are written again beside what is predicted for them.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/questions.h"
#include "data/table.h"
#include "data/tagged_text.h"
#include "run/spec/spec.h"
#include "trainer/tasks/task_name.h"

namespace amp {

struct TextRows {
  std::vector<std::string> names;  // of the files
  std::optional<Table> table;      // none: of CoNLL's lines and SQuAD's JSON
  std::vector<TaggedText> tagged;  // Task::token
  std::shared_ptr<AnswerKey> key;  // Task::span

  int64_t size() const;  // rows of a table, texts, questions
  std::vector<std::string> columns() const;
  // A row's cells: texts, JSON of JSON lines, arrays of words and tags; null for what is absent.
  std::vector<nlohmann::ordered_json> cells(int64_t row) const;
};

bool is_text_file(const std::string& path);
bool names_tagged_words(const std::string& path);  // .conll

// --lower_case false where it is not said and a vocab.txt has words with capital letters: a cased model's. Told.
RunSpec with_letters(RunSpec spec, const Log& log);

// Tables but for tagged words and questions without --text_columns: CoNLL's lines, SQuAD's JSON. labelled: false to
// predict; a column of labels is neither needed nor looked at then.
// path: one file or several (data/text_file.h).
TextRows read_text_rows(const RunSpec& spec, const std::string& path, Task task, bool labelled = true);
Table read_table(const RunSpec& spec, const std::string& path);

}  // namespace amp
