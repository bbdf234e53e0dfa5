// --check_data: text files, images and tables read once: what training would meet in them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "run/spec/spec.h"

namespace amp {

struct DataProblem {
  std::string where, what;  // "train.csv:17", "the text is empty"
};

// Of images that can be read: width and height.
struct ImageSizes {
  int64_t images = 0, grey = 0, sizes = 0;                    // sizes: different ones
  std::pair<int64_t, int64_t> smallest, median, largest;      // by pixels
  std::vector<std::pair<std::string, int64_t>> nearest = {};  // images by size, of --image_sizes
};

// Of a table of features.
struct ColumnReport {
  std::string name, kind;                        // categorical, continuous, target
  int64_t values = 0, missing = 0, unknown = 0;  // different ones, or numbers; rows that the training data lack
  double low = 0, high = 0, mean = 0;            // of numbers
};

struct FileReport {
  std::string name;  // as it was given
  int64_t rows = 0;
  std::map<std::string, int64_t> labels;  // rows by class, texts' words by tag
  // Tokens with special ones, before anything is cut; all 0 without a tokenizer.
  int64_t shortest = 0, median = 0, longest = 0;
  std::vector<std::pair<int64_t, int64_t>> lengths;  // up to so many tokens: rows
  int64_t cut = 0;                                   // rows that --max_seq_len shortens, or takes apart into windows
  int64_t duplicates = 0;                            // rows whose texts, or images, stood before
  std::optional<ImageSizes> images = {};
  std::vector<ColumnReport> columns = {};
};

struct DataReport {
  std::string task;
  std::vector<FileReport> files;    // training, validation
  std::vector<std::string> inputs;  // of features: what goes to which input of the model
  int64_t in_both = 0;              // validation rows whose texts are in the training data
  int64_t problems = 0;
  std::vector<DataProblem> first_problems;  // up to 20
  void problem(const std::string& where, const std::string& what);
  void notes(const std::vector<std::string>& sentences);  // of a table (data/table.h), "FILE: what"
  void check_spelling(const FileReport& f);               // labels that differ only in capitals or spaces
  std::string json() const;
  std::vector<std::string> lines() const;  // for people
};

// Errors of settings, and files that cannot be opened, are thrown; what a reader refuses is a problem.
DataReport check_data(const RunSpec& spec, const Log& log = {});

}  // namespace amp
