// NormalizedString: a text during tokenization. It consists of the current text, the place in the original text that
// each of its bytes comes from, and the splits: ranges of the current text that are tokenized separately. Places follow
// Hugging Face's NormalizedString, so that offsets are equal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace amp {

struct TextPlace {
  uint32_t begin = 0, end = 0;  // byte range of the original text
};

struct Split {
  uint32_t begin = 0, end = 0;  // byte range of the current text
  int32_t id = -1;              // id of an added token, or -1
};

// A character of a replacement text. change 0: takes the place of the next old character. 1: inserted; shares the place
// of the last replaced character. -n: takes the place of the next old character, and n more old characters are dropped.
struct Change {
  uint32_t c = 0;
  int change = 0;
};

struct NormalizedString {
  std::string text;
  std::vector<TextPlace> from;  // place in the original text that each byte of `text` comes from
  std::vector<Split> splits;
  uint32_t origin = 0;  // byte offset in the original at which `text` began

  NormalizedString() = default;
  NormalizedString(std::string_view original, uint32_t origin);  // makes one split

  std::string_view at(const Split& s) const { return std::string_view(text).substr(s.begin, s.end - s.begin); }
  TextPlace place(const Split& s) const;

  // Replaces the whole text after its first `dropped` characters; splits become invalid.
  void change(const std::vector<Change>& changes, size_t dropped = 0);
  void prepend(std::string_view with);  // adds bytes that share the place of the first character
  void append_bytes(std::string_view bytes, TextPlace place);
};

// A match, or the text between two matches. Finders cover the whole text in order.
struct Match {
  uint32_t begin = 0, end = 0;
  bool is_match = false;
};
using Finder = std::function<void(std::string_view text, std::vector<Match>& out)>;

Finder find_string(std::string pattern);
Finder find_char(bool (*wanted)(uint32_t code_point));  // finds each wanted character

enum class SplitRule : uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };
// Divides the splits that are not added tokens at the matches. invert: at the text between the matches instead.
void split_all(NormalizedString& t, const Finder& find, SplitRule rule, bool invert = false);
// Applies `remake` to each split that is not an added token.
void remake_all(NormalizedString& t, const std::function<void(NormalizedString& part)>& remake);
// Replaces all matches by content.
void replace_all(NormalizedString& t, const Finder& find, std::string_view content);

}  // namespace amp
