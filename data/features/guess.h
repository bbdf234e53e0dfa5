// Which columns are features, and of which kind, where nobody says so. By what stands in them:
//   dates are dates; numbers with fractions, or of more than 20 values, are continuous; all else is a category.
// Left out: columns without a value or with one alone, and those with a value of their own in (nearly) every row. Keys
// of joins are categories whatever they look like.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "data/features/features.h"

namespace amp {

constexpr int64_t kMostClasses = 20;  // values of a number that is a category: fastai's max_card

struct Guess {
  std::vector<std::string> categorical, continuous, dates;
  std::vector<std::pair<std::string, std::string>> left_out;  // column, why
};
// dates: known ones, beside which none is looked for; empty: those found are added to the table as parts.
Guess guess_features(FeatureTable& table, const std::string& target, std::vector<std::string> dates,
                     const std::vector<Join>& joins);

// A target to regress on: numbers, with fractions or of more than kMostClasses values.
bool is_number_target(const FeatureTable& table, const std::string& target);

}  // namespace amp
