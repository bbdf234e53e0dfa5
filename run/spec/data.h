// Settings of the data: files, labels, samples, and the parts for each kind of data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run/spec/default.h"
#include "run/spec/images.h"
#include "run/spec/language.h"
#include "run/spec/tables.h"
#include "run/spec/text.h"

namespace amp {

struct DataSpec {
  std::string train, val;
  Default<std::string> label_column{"label"};
  std::vector<std::string> label_map;            // "OLD=NEW"
  Default<std::vector<std::string>> labels{{}};  // classes in the order of the outputs; empty: data/class_order.h
  std::string val_label_column;                  // empty: label_column
  std::string delimiter = "auto", data_format = "auto";
  std::string decimal = "auto";            // numbers of text tables: point, comma
  bool trim_labels = true;                 // drop spaces around labels
  double val_split = 0;                    // share of the training data to validate on
  int64_t limit_train = 0, limit_val = 0;  // samples; 0: all
  std::string limit_order = "sample";      // which samples a limit keeps: drawn by seed, or the first
  bool shuffle = true, weighted_sampling = false;

  TextSpec text;
  LanguageSpec language;
  ImageSpec images;
  TableSpec tables;
};

}  // namespace amp
