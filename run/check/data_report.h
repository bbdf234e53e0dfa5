// DataReport: the result of `check_data`, for texts, images and tables.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/skipped_rows.h"

namespace amp {

struct DataProblem {
  std::string where, what;  // "train.csv:17", "the text is empty"
};

// Sizes (width, height) of the images that can be read.
struct ImageSizes {
  int64_t images = 0, grey = 0, sizes = 0;                // sizes: number of distinct sizes
  std::pair<int64_t, int64_t> smallest, median, largest;  // by number of pixels
  // For each of `image_sizes`: the number of images that get this size.
  std::vector<std::pair<std::string, int64_t>> nearest = {};
};

// A column of a table of features.
struct ColumnReport {
  std::string name, kind;  // kind: categorical, continuous, target
  // values: number of distinct categories, or of numbers in the column. missing: number of rows without a value.
  // unknown: number of rows with a category that the training data lack.
  int64_t values = 0, missing = 0, unknown = 0;
  double low = 0, high = 0, mean = 0;  // smallest, largest and mean number of a continuous column
};

struct FileReport {
  std::string name;  // as given in the settings
  int64_t rows = 0;
  std::map<std::string, int64_t> labels;  // number of rows by class, or of words by tag
  // Lengths of the texts in tokens, with special tokens, before truncation. They are 0 without a tokenizer.
  int64_t shortest = 0, median = 0, longest = 0;
  std::vector<std::pair<int64_t, int64_t>> lengths;  // histogram: (maximum length, rows)
  // Number of rows longer than `max_seq_len`, which are truncated or split into windows.
  int64_t cut = 0;
  int64_t duplicates = 0;  // number of rows whose text, image or features occurred before
  std::optional<ImageSizes> images = {};
  std::vector<ColumnReport> columns = {};
};

struct DataReport {
  std::string task;
  std::vector<FileReport> files;    // training, validation
  std::vector<std::string> inputs;  // tables of features: which columns feed which input of the model
  int64_t in_both = 0;              // number of validation rows whose texts are in the training data
  int64_t problems = 0;
  std::vector<DataProblem> first_problems;  // the first 20 problems, or fewer
  void problem(const std::string& where, const std::string& what);
  // Adds the notes of a table (data/table.h) in the form "FILE: note".
  void notes(const std::vector<std::string>& sentences);
  void skipped(const std::vector<SkippedRow>& rows);  // adds each row as a problem
  void check_spelling(const FileReport& f);           // reports labels that differ only in capitals or spaces
  std::string json() const;
  std::vector<std::string> lines() const;  // the report for users
};

}  // namespace amp
