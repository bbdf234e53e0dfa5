// DataSpec: settings of the data: files, labels, samples, and the settings for each kind of data (TextSpec ...).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
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
  Default<std::vector<std::string>> labels{{}};  // classes in output order; empty: see data/class_order.h
  std::string val_label_column;                  // empty: label_column
  std::string delimiter = "auto", data_format = "auto";
  std::string decimal = "auto";            // decimal separator of text tables: point, comma
  bool trim_labels = true;                 // strip spaces around labels
  Default<double> val_split{0};            // fraction of the training data used for validation
  int64_t limit_train = 0, limit_val = 0;  // in samples; 0: all
  std::string limit_order = "sample";      // limits keep random samples ("sample") or the first ones ("first")
  int64_t skip_bad_rows = 0;               // rows of each data set that may be left out
  bool shuffle = true, weighted_sampling = false;

  // Not a setting: rows that were left out (file, line), with the reason. Later readings leave them out too. Copies of
  // a RunSpec share it. Null: no rows may be skipped.
  std::shared_ptr<std::map<std::pair<std::string, int64_t>, std::string>> skipped = nullptr;

  TextSpec text;
  LanguageSpec language;
  ImageSpec images;
  TableSpec tables;
};

}  // namespace amp
