// Arguments: the values after a transform's name, in the order of its parameters or as key=value. A value is a word, or
// numbers separated by commas.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace amp {

class Arguments {
 public:
  // words: as "224" or "scale=0.5,1". parameters: see TransformRow. Throws E_TRANSFORM (Exit::usage) if they do not
  // fit.
  Arguments(std::string name, std::span<const std::string> words, std::span<const std::string> parameters);

  const std::string& transform() const { return name_; }
  bool has(const std::string& parameter) const;  // true if there is a value, given or default
  const std::string& text(const std::string& parameter) const;
  bool is_word(const std::string& parameter) const;                 // true if the value is not a number
  std::vector<double> numbers(const std::string& parameter) const;  // returns one or more finite numbers
  double number(const std::string& parameter, double low, double high) const;
  std::pair<double, double> interval(const std::string& parameter, double low, double high) const;
  struct Size {
    int64_t height = 0, width = 0;
  };
  Size size(const std::string& parameter) const;  // reads "224" (both sides) or "H,W"
  [[noreturn]] void refuse(const std::string& parameter, const std::string& wanted) const;

 private:
  std::string name_;
  std::map<std::string, std::string> values_;
};

}  // namespace amp
