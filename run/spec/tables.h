// TableSpec: settings of tables of features.
#pragma once

#include <string>
#include <vector>

#include "run/spec/default.h"

namespace amp {

struct TableSpec {
  Default<std::vector<std::string>> categorical{{}}, continuous{{}}, date{{}}, join{{}};
  Default<std::string> target{""};  // empty: label_column
  Default<std::string> target_transform{"none"};
  std::string fill_missing = "median", feature_scaling = "standard";
};

}  // namespace amp
