// A text on its way to tokens: what it has become, where in the original each of its bytes comes from, and the parts
// that it is split into. Places follow Hugging Face's NormalizedString, so that offsets are the same.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace amp {

struct TextPlace {
  uint32_t begin = 0, end = 0;  // bytes of the original
};

struct Split {
  uint32_t begin = 0, end = 0;  // bytes of the text
  int32_t id = -1;              // of an added token that stands there
};

// A character of what replaces a text. change 0: in the place of the next character of the old text; 1: put after what
// was replaced before it, whose place it shares; -n: in the place of the next one, and n more are dropped.
struct Change {
  uint32_t c = 0;
  int change = 0;
};

struct WorkingText {
  std::string text;
  std::vector<TextPlace> from;  // of each byte of text
  std::vector<Split> splits;
  uint32_t origin = 0;  // where the text begins in the original

  WorkingText() = default;
  WorkingText(std::string_view original, uint32_t origin);  // one split

  std::string_view at(const Split& s) const { return std::string_view(text).substr(s.begin, s.end - s.begin); }
  TextPlace place(const Split& s) const;

  // The whole text changed, after `dropped` characters at its start; splits are not kept.
  void change(const std::vector<Change>& changes, size_t dropped = 0);
  void prepend(std::string_view with);  // in the place of the first character
  void append_bytes(std::string_view bytes, TextPlace place);
};

// Matches and what lies between them, from the start to the end of a text.
struct Match {
  uint32_t begin = 0, end = 0;
  bool is_match = false;
};
using Finder = std::function<void(std::string_view text, std::vector<Match>& out)>;

Finder find_string(std::string pattern);
Finder find_char(bool (*wanted)(uint32_t code_point));  // each such character is a match

enum class SplitRule : uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };
// Splits that are no added tokens, split where the matches are (invert: where they are not).
void split_all(WorkingText& t, const Finder& find, SplitRule rule, bool invert = false);
// Each split that is no added token remade on its own.
void remake_all(WorkingText& t, const std::function<void(WorkingText& part)>& remake);
// All matches replaced by content.
void replace_all(WorkingText& t, const Finder& find, std::string_view content);

}  // namespace amp
