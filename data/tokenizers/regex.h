// Regular expressions of tokenizer files, matched by PCRE2. The files are written for Oniguruma (Ruby's syntax), and \w
// and \s have Oniguruma's meaning. Characters newer than PCRE2's Unicode are matched by their category.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/tokenizers/normalized_string.h"

namespace amp {

class Regex {
 public:
  explicit Regex(const std::string& pattern);  // throws E_TOKENIZER (exit 5) for an invalid pattern
  void find_all(std::string_view text, std::vector<Match>& out) const;
  Finder finder() const;  // returns a Finder that owns the compiled pattern

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

}  // namespace amp
