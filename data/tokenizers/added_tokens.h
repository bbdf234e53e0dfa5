// Added tokens: tokens that are found in the text verbatim, before the model splits it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/tokenizers/normalizers.h"

namespace amp {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false, lstrip = false, rstrip = false, normalized = false, special = false;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(std::vector<AddedToken> tokens, const TextStep& normalizer);
  // Divides the splits of t (NormalizedString::splits) at the added tokens in them; splits that are added tokens stay.
  // normalized: true finds the tokens with AddedToken::normalized, false the tokens without it.
  void split(NormalizedString& t, bool normalized) const;
  const std::vector<AddedToken>& all() const { return tokens_; }
  const std::string& looked_for(size_t i) const;  // returns the text that find() searches for all()[i]

 private:
  struct Set {  // indices into tokens_ by first byte, longest text first
    std::map<unsigned char, std::vector<size_t>> by_first;
    std::string firsts;
    std::vector<std::string> texts;  // the text to find for each element of tokens_
  };
  void find(const Set& set, std::string_view text, std::vector<Split>& out) const;
  std::vector<AddedToken> tokens_;
  Set plain_, normalized_;
};

}  // namespace amp
