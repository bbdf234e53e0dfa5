// Labels of a text table: class names, sets of them, or numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/class_names.h"
#include "data/table.h"

namespace amp {

enum class LabelForm : uint8_t {
  classes,  // int64 [B]: places in classes
  numbers,  // float32 [B]
  sets,     // float32 [B, classes]: 0 or 1
  tokens,   // int64 [B, length]: a class for each id, kIgnoreIndex where there is none
  spans,    // int64 [B, 2]: first and last token
  ids,      // int64 [B, length]: a text's own ids, kIgnoreIndex where there is no loss
  masks,    // int64 [B, height, width]: a class for each pixel, kIgnoreIndex where there is none
};

// The distinct values of the column, in natural order. An empty or missing label: E_DATA_LABEL with file:line.
std::vector<std::string> distinct_labels(const Table& table, const std::string& column);
// The same of training data: E_DATA_LABEL where there is only one.
std::vector<std::string> find_classes(const Table& table, const std::string& column);

// Class ids by LabelIndex; a label that means none of the classes: E_DATA_LABEL_NEW with the label, the classes and
// file:line.
std::vector<int64_t> class_ids(const Table& table, const std::string& column, const ClassNames& classes);
// Error E_DATA_LABEL_NEW; what: "t.csv:3: label 'x' in column 'y'".
[[noreturn]] void refuse_label(const std::string& what, const ClassNames& classes);

// The names of every row: an array in JSON or as a text (['a', 'b']), or names between separators; an empty label is no
// name. separator 0: the first of | ; , that occurs in the column.
std::vector<std::vector<std::string>> label_sets(const Table& table, const std::string& column, char separator = 0);
// The distinct names of the sets, in natural order; none at all: E_DATA_LABEL.
std::vector<std::string> find_names(const std::vector<std::vector<std::string>>& sets);
// 0 or 1 for every class, row by row; a name that means none of them: E_DATA_LABEL_NEW.
std::vector<float> multi_hot(const Table& table, const std::vector<std::vector<std::string>>& sets,
                             const ClassNames& classes);

// Every label is a finite number, and not all of them are whole: a column to regress on.
bool is_regression_column(const Table& table, const std::string& column);

// Numbers; anything but a finite number: E_DATA_LABEL.
std::vector<float> label_numbers(const Table& table, const std::string& column);

}  // namespace amp
