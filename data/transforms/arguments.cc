// Parses the arguments of a transform and checks their names, count and ranges. Errors list the parameters that the
// transform takes.
#include "data/transforms/arguments.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/number_text.h"
#include "base/text.h"
#include "data/images/image.h"

namespace amp {

Arguments::Arguments(std::string name, std::span<const std::string> words, std::span<const std::string> parameters)
    : name_(std::move(name)) {
  std::vector<std::string> names;
  for (const std::string& p : parameters) {
    const size_t equals = p.find('=');
    names.push_back(p.substr(0, equals));
    if (equals != std::string::npos && equals + 1 < p.size()) values_[names.back()] = p.substr(equals + 1);
  }
  const std::string takes =
      names.empty() ? cat(name_, " takes no values") : cat(name_, " takes: ", join(parameters, " "));
  std::vector<std::string> given;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const size_t place = given.size();
    if (equals == std::string::npos && place >= names.size())
      fail(Exit::usage, "E_TRANSFORM", cat("transform ", name_, ": '", printable(word), "' is one value too many"),
           takes);
    const std::string key = equals == std::string::npos ? names[place] : word.substr(0, equals);
    if (std::find(names.begin(), names.end(), key) == names.end() ||
        std::find(given.begin(), given.end(), key) != given.end())
      fail(Exit::usage, "E_TRANSFORM",
           cat("transform ", name_, ": '", printable(key), "' is no value of it, or was given already"), takes);
    given.push_back(key);
    values_[key] = equals == std::string::npos ? word : word.substr(equals + 1);
  }
  for (const std::string& p : parameters) {
    if (p.find('=') == std::string::npos && !values_.count(p))
      fail(Exit::usage, "E_TRANSFORM", cat("transform ", name_, " needs its ", p), takes);
  }
}

bool Arguments::has(const std::string& parameter) const { return values_.count(parameter) > 0; }

const std::string& Arguments::text(const std::string& parameter) const {
  const auto it = values_.find(parameter);
  if (it == values_.end()) bug(cat("transform ", name_, " has no '", parameter, "'"));
  return it->second;
}

void Arguments::refuse(const std::string& parameter, const std::string& wanted) const {
  fail(Exit::usage, "E_TRANSFORM",
       cat("transform ", name_, ": ", parameter, " '", printable(text(parameter)), "' is not ", wanted));
}

bool Arguments::is_word(const std::string& parameter) const { return !parse_number(split(text(parameter), ',').at(0)); }

std::vector<double> Arguments::numbers(const std::string& parameter) const {
  std::vector<double> out;
  for (const std::string& part : split(text(parameter), ',')) {
    const auto v = parse_number(part);
    if (!v || !std::isfinite(*v)) refuse(parameter, "a number, or numbers between commas");
    out.push_back(*v);
  }
  return out;
}

double Arguments::number(const std::string& parameter, double low, double high) const {
  const std::vector<double> v = numbers(parameter);
  if (v.size() != 1 || !(v[0] >= low && v[0] <= high)) refuse(parameter, cat("a number from ", low, " to ", high));
  return v[0];
}

std::pair<double, double> Arguments::interval(const std::string& parameter, double low, double high) const {
  const std::vector<double> v = numbers(parameter);
  if (v.size() != 2 || !(v[0] >= low && v[0] <= v[1] && v[1] <= high))
    refuse(parameter, cat("two numbers from ", low, " to ", high, ", the smaller first"));
  return {v[0], v[1]};
}

Arguments::Size Arguments::size(const std::string& parameter) const {
  const std::vector<double> v = numbers(parameter);
  const bool whole = std::all_of(v.begin(), v.end(), [](double x) {
    return x >= 1 && x <= static_cast<double>(kLargestSide) && x == std::floor(x);
  });
  if (v.size() > 2 || !whole) refuse(parameter, "a side in pixels, or HEIGHT,WIDTH");
  return {static_cast<int64_t>(v.front()), static_cast<int64_t>(v.back())};
}

}  // namespace amp
