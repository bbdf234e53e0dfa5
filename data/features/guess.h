// Guesses the feature columns and their kinds from the columns' contents, if no setting names them:
//   columns of dates stay dates; numbers with fractions or with more than 20 distinct values are continuous; others
//   are categories.
// Columns without values, with a single value, or with a different value in (nearly) every row are left out. Keys of
// joins are always categories. If rows may be skipped (Table::may_skip), a few texts among numbers or dates do not
// count.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "data/features/features.h"

namespace amp {

constexpr int64_t kMostClasses = 20;  // most distinct whole numbers of a category: fastai's max_card

struct Guess {
  std::vector<std::string> categorical, continuous, dates;
  std::vector<std::pair<std::string, std::string>> left_out;  // pairs of a column and the reason
};
// dates: the known columns of dates. If it is empty, such columns are detected and their parts are added to the table.
Guess guess_features(FeatureTable& table, const std::string& target, std::vector<std::string> dates,
                     const std::vector<Join>& joins);

// Returns whether the target is a regression target: numbers with fractions, or more than kMostClasses values.
bool is_number_target(const FeatureTable& table, const std::string& target);

}  // namespace amp
