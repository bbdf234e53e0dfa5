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
  std::optional<Table> table;      // not set for CoNLL files and SQuAD's JSON
  std::vector<TaggedText> tagged;  // set for TextForm::tagged_words
  std::shared_ptr<AnswerKey> key;  // set for TextForm::questions
  SkippedRows left_out;            // tagged texts and questions of files without a table that were left out

  int64_t size() const;                      // number of rows of the table, tagged texts or questions
  std::vector<std::string> columns() const;  // names of the cells of a row
  // Returns the cells of a row: strings, JSON values of JSON lines, or arrays of words and tags. An absent cell is
  // null.
  std::vector<nlohmann::ordered_json> cells(int64_t row) const;
};

bool is_text_file(const std::string& path);
bool names_tagged_words(const std::string& path);  // true for names that end in .conll

// Sets `lower_case` to false if it is not given and vocab.txt holds words with capital letters: the model is cased
// then. Logs the change.
RunSpec with_letters(RunSpec spec, const Log& log);

// Chooses `task` language and the text columns of a table by the usual names of columns: messages or conversations, or
// prompt and completion (prompts with answers). Does nothing if columns, label or another task are given, or if the
// table has a column with the label's name. Also chooses the columns of preferences for their losses and tasks: prompt,
// chosen and rejected, or prompt and completion with a label. Logs the choice.
RunSpec with_conversations(RunSpec spec, const std::string& path, const Log& log);

// Reads the rows of `path`, one file or several (data/text_file.h). If `text_columns` is not given, tagged words are
// read from CoNLL files and questions from SQuAD's JSON; all other files are tables. `labeled` is false for
// predictions, which do not need a label column.
TextRows read_text_rows(const RunSpec& spec, const std::string& path, Task task, bool labeled = true);
Table read_table(const RunSpec& spec, const std::string& path);

}  // namespace amp
