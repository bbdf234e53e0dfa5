// Learning rate range test (Smith 2017, arXiv:1506.01186) with the constants of fastai's LRFinder: losses are smoothed
// by an exponential average (0.98), and the test ends at four times the lowest loss. Suggestions ignore the first
// tenth of the steps and the last five losses.
#include "run/prepare/lr_range.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/number_text.h"
#include "base/text.h"

namespace amp {

namespace {
constexpr double kBeta = 0.98, kDiverged = 4;

double rate(const std::map<std::string, std::string>& given, const std::string& key, double otherwise) {
  const auto it = given.find(key);
  if (it == given.end()) return otherwise;
  const std::optional<double> x = parse_number(it->second);
  if (!x || !(*x > 0) || !std::isfinite(*x))
    fail(Exit::usage, "E_FLAG_RANGE", cat("`lr_scheduler_kwargs` ", key, " is ", printable(it->second)),
         "give a number above 0");
  return *x;
}

// Returns fastai's valley: the point at two thirds of the longest decreasing subsequence.
size_t valley_of(const std::vector<double>& loss) {
  std::vector<size_t> length(loss.size(), 1);
  size_t end = 0;
  int64_t start = 0;
  for (size_t i = 1; i < loss.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (loss[i] < loss[j] && length[i] < length[j] + 1) length[i] = length[j] + 1;
      if (length[end] < length[i]) {
        end = i;
        start = static_cast<int64_t>(end) - static_cast<int64_t>(length[end]);
      }
    }
  }
  const double third = static_cast<double>(static_cast<int64_t>(end) - start) / 3;
  return static_cast<size_t>(
      std::max<int64_t>(0, start + static_cast<int64_t>(third) + static_cast<int64_t>(third / 2)));
}
}  // namespace

ScheduleConfig lr_range_schedule(int64_t steps, const std::map<std::string, std::string>& given) {
  for (const auto& [key, value] : given) {
    if (key != "min_lr" && key != "max_lr")
      fail(Exit::usage, "E_FLAG_VALUE", cat("`lr_scheduler_kwargs`: `lr_range_test` has no '", printable(key), "'"),
           "it has: min_lr, max_lr");
  }
  const double low = rate(given, "min_lr", 1e-7), high = rate(given, "max_lr", 10);
  if (!(low < high))
    fail(Exit::usage, "E_FLAG_RANGE", cat("`lr_scheduler_kwargs` min_lr is ", number_text(low)),
         cat("give a number below max_lr, ", number_text(high)));
  ScheduleConfig c;
  c.kind = "exponential";
  c.lr = low;
  c.total_steps = steps;
  c.settings["gamma"] = number_text(std::pow(high / low, 1 / static_cast<double>(std::max<int64_t>(1, steps))));
  return c;
}

void LrRange::observe(double lr, double loss) {
  rates_.push_back(lr);
  losses_.push_back(loss);
  average_ = kBeta * average_ + (1 - kBeta) * loss;
  smoothed_.push_back(average_ / (1 - std::pow(kBeta, static_cast<double>(losses_.size()))));
  if (losses_.size() == 1 || smoothed_.back() < lowest_) lowest_ = smoothed_.back();
  over_ |= !std::isfinite(smoothed_.back()) || smoothed_.back() > kDiverged * lowest_;
}

LrRange::Rates LrRange::rates() const {
  const auto begin = static_cast<size_t>(steps_ / 10);
  if (rates_.size() < begin + 5 + 2) return {};
  size_t end = begin;
  while (end < rates_.size() - 5 && std::isfinite(smoothed_[end])) ++end;
  if (end < begin + 2) return {};
  const std::vector<double> loss(smoothed_.begin() + static_cast<std::ptrdiff_t>(begin),
                                 smoothed_.begin() + static_cast<std::ptrdiff_t>(end));
  const double* const lr = rates_.data() + begin;
  Rates out;
  out.valley = lr[valley_of(loss)];
  double least = INFINITY;
  for (size_t i = 0; i + 1 < loss.size(); ++i) {
    const double slope = (loss[i + 1] - loss[i]) / (std::log(lr[i + 1]) - std::log(lr[i]));
    if (slope < least) {
      least = slope;
      out.steep = lr[i];
    }
  }
  out.minimum = lr[std::min_element(loss.begin(), loss.end()) - loss.begin()] / 10;
  return out;
}

std::string LrRange::json() const {
  const Rates r = rates();
  const nlohmann::json j = {{"lr", rates_},
                            {"loss", losses_},
                            {"smoothed_loss", smoothed_},
                            {"suggested", {{"valley", r.valley}, {"steep", r.steep}, {"minimum_tenth", r.minimum}}}};
  return j.dump(1) + "\n";  // a NaN loss becomes null
}

}  // namespace amp
