// The rows of a text file, as a task reads them and as they are written next to predictions.
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
#include "trainer/tasks/task_name.h"

namespace amp {

struct RunSpec;

struct TextRows {
  std::vector<std::string> names;  // the files
  std::optional<Table> table;      // none for CoNLL files and SQuAD's JSON
  std::vector<TaggedText> tagged;  // TextForm::tagged_words
  std::shared_ptr<AnswerKey> key;  // TextForm::questions

  int64_t size() const;                      // number of rows of the table, tagged texts or questions
  std::vector<std::string> columns() const;  // names of the cells
  // A row's cells: strings, JSON values of JSON lines, arrays of words and tags; null if absent.
  std::vector<nlohmann::ordered_json> cells(int64_t row) const;
};

bool is_text_file(const std::string& path);
bool names_tagged_words(const std::string& path);  // .conll

// Sets --lower_case false if it is not given and vocab.txt holds words with capital letters: the model is cased. Logs
// it.
RunSpec with_letters(RunSpec spec, const Log& log);

// Reads a table. Without --text_columns, tagged words are read from CoNLL files, questions from SQuAD's JSON. labeled:
// false for predictions, which do not read a label column. path: one file or several (data/text_file.h).
TextRows read_text_rows(const RunSpec& spec, const std::string& path, Task task, bool labeled = true);
Table read_table(const RunSpec& spec, const std::string& path);

}  // namespace amp
