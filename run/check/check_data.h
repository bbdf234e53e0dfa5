// --check_data: reads text files, images and tables once, and reports problems that training would have with them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"

namespace amp {

struct RunSpec;

struct DataProblem {
  std::string where, what;  // "train.csv:17", "the text is empty"
};

// Sizes (width, height) of the images that can be read.
struct ImageSizes {
  int64_t images = 0, grey = 0, sizes = 0;                    // sizes: number of distinct sizes
  std::pair<int64_t, int64_t> smallest, median, largest;      // by number of pixels
  std::vector<std::pair<std::string, int64_t>> nearest = {};  // number of images per size of --image_sizes
};

// A column of a table of features.
struct ColumnReport {
  std::string name, kind;  // kind: categorical, continuous, target
  // values: distinct categories, or count of numbers. missing, unknown: rows; unknown categories are those that the
  // training data lack.
  int64_t values = 0, missing = 0, unknown = 0;
  double low = 0, high = 0, mean = 0;  // of numbers
};

struct FileReport {
  std::string name;  // as given in the settings
  int64_t rows = 0;
  std::map<std::string, int64_t> labels;  // number of rows by class, or of words by tag
  // Lengths in tokens, with special tokens, before truncation; 0 without a tokenizer.
  int64_t shortest = 0, median = 0, longest = 0;
  std::vector<std::pair<int64_t, int64_t>> lengths;  // histogram: (maximum length, rows)
  int64_t cut = 0;                                   // rows that --max_seq_len truncates, or splits into windows
  int64_t duplicates = 0;                            // rows whose text, image or features occurred before
  std::optional<ImageSizes> images = {};
  std::vector<ColumnReport> columns = {};
};

struct DataReport {
  std::string task;
  std::vector<FileReport> files;    // training, validation
  std::vector<std::string> inputs;  // tables of features: which columns feed which input of the model
  int64_t in_both = 0;              // validation rows whose texts are in the training data
  int64_t problems = 0;
  std::vector<DataProblem> first_problems;  // up to 20
  void problem(const std::string& where, const std::string& what);
  void notes(const std::vector<std::string>& sentences);  // adds notes of a table (data/table.h), "FILE: what"
  void check_spelling(const FileReport& f);               // labels that differ only in capitals or spaces
  std::string json() const;
  std::vector<std::string> lines() const;  // as text
};

// Throws errors of settings and of files that cannot be opened. Rows that a reader refuses are reported as problems.
DataReport check_data(const RunSpec& spec, const Log& log = {});

}  // namespace amp
