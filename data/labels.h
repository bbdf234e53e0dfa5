// Labels of a text table: class names, sets of them, or numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

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

// The distinct values of the column, sorted by bytes: their places are the class ids. An empty or missing label:
// E_DATA_LABEL with file:line; only one value in the whole table: E_DATA_LABEL.
std::vector<std::string> find_classes(const Table& table, const std::string& column);

// Class ids; a value that classes lacks: E_DATA_LABEL_NEW with the value, the known labels and file:line.
std::vector<int64_t> class_ids(const Table& table, const std::string& column, std::span<const std::string> classes);

// The names of every row: an array in JSON or as a text (['a', 'b']), or names between separators; an empty label is no
// name. separator 0: the first of | ; , that occurs in the column.
std::vector<std::vector<std::string>> label_sets(const Table& table, const std::string& column, char separator = 0);
// The distinct names of the sets, sorted by bytes; none at all: E_DATA_LABEL.
std::vector<std::string> find_names(const std::vector<std::vector<std::string>>& sets);
// 0 or 1 for every known name, row by row; a name that names lacks: E_DATA_LABEL_NEW.
std::vector<float> multi_hot(const Table& table, const std::vector<std::vector<std::string>>& sets,
                             std::span<const std::string> names);

// Every label is a finite number, and not all of them are whole: a column to regress on.
bool is_regression_column(const Table& table, const std::string& column);

// Numbers; anything but a finite number: E_DATA_LABEL.
std::vector<float> label_numbers(const Table& table, const std::string& column);

}  // namespace amp
