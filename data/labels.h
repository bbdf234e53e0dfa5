// Labels of a table: class names, sets of names, or numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/class_names.h"
#include "data/table.h"

namespace amp {

enum class LabelForm : uint8_t {
  classes,  // int64 [B]: class id
  numbers,  // float32 [B]
  sets,     // float32 [B, classes]: 0 or 1
  tokens,   // int64 [B, length]: a class id per token, or kIgnoreIndex
  spans,    // int64 [B, 2]: indices of the answer's first and last token
  ids,      // int64 [B, length]: the text's token ids, or kIgnoreIndex where no loss is computed
  masks,    // int64 [B, height, width]: a class id per pixel, or kIgnoreIndex
};

// Returns the distinct values of the column in natural order. Throws E_DATA_LABEL with file:line for an empty or
// missing label.
std::vector<std::string> distinct_labels(const Table& table, const std::string& column);
// Like distinct_labels, for training data: throws E_DATA_LABEL if all labels are equal.
std::vector<std::string> find_classes(const Table& table, const std::string& column);

// Throws the error of distinct_labels(), label_numbers() or label_sets() for the label of one row, according to `form`.
// With classes, also that of class_ids() and multi_hot(). Used for rows that may be skipped.
class LabelCheck {
 public:
  LabelCheck(const Table& table, const std::string& column, LabelForm form, const ClassNames& classes = {});
  void operator()(int64_t row) const;

 private:
  const Table& table_;
  size_t column_;
  LabelForm form_;
  const ClassNames& classes_;
  LabelIndex index_;
  char separator_;
};

// Returns the class id of each row's label, as LabelIndex finds it. Throws E_DATA_LABEL_NEW with the label, the classes
// and file:line for an unknown label.
std::vector<int64_t> class_ids(const Table& table, const std::string& column, const ClassNames& classes);
// Throws E_DATA_LABEL_NEW with `what`, such as "t.csv:3: label 'x' in column 'y'", and the names of the classes.
[[noreturn]] void refuse_label(const std::string& what, const ClassNames& classes);

// Returns the label names of each row. A cell holds an array (in JSON, or as text such as ['a', 'b']) or names between
// separators. An empty cell has no names. separator 0: the first of | ; , that occurs in the column.
std::vector<std::vector<std::string>> label_sets(const Table& table, const std::string& column, char separator = 0);
// Returns the distinct names of all sets in natural order. Throws E_DATA_LABEL if there are none.
std::vector<std::string> find_names(const std::vector<std::vector<std::string>>& sets);
// Returns the sets as [rows, classes]: 1 where the row's set contains the class, else 0. Throws E_DATA_LABEL_NEW for an
// unknown name.
std::vector<float> multi_hot(const Table& table, const std::vector<std::vector<std::string>>& sets,
                             const ClassNames& classes);

// Returns whether the column is one for regression: all labels are finite numbers, and some are not whole.
bool is_regression_column(const Table& table, const std::string& column);

// Returns the labels as numbers. Throws E_DATA_LABEL for anything that is not a finite number.
std::vector<float> label_numbers(const Table& table, const std::string& column);

}  // namespace amp
