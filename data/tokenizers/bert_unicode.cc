// Implements bert_unicode.h with tables of ranges (bert_unicode_tables.inc) and utf8proc. A test compares all code
// points with the reference tokenizer.
#include "data/tokenizers/bert_unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace amp {

namespace {

struct Range {
  uint32_t first, last;
};
struct Fold {
  uint32_t first, last, to;  // maps code point first + i to code point to + i
};
#include "data/tokenizers/bert_unicode_tables.inc"

std::vector<CharClass> build_classes() {
  std::vector<CharClass> classes(0x110000, CharClass::other);
  const auto set = [&](std::span<const Range> ranges, CharClass c) {
    for (const Range& r : ranges) std::fill(classes.begin() + r.first, classes.begin() + r.last + 1, c);
  };
  set(kPunctuation, CharClass::punctuation);
  // The tables do not overlap; the test of all code points would detect it.
  set(kMark, CharClass::mark);
  set(kIdeograph, CharClass::ideograph);
  set(kSpace, CharClass::space);
  set(kRemoved, CharClass::removed);
  return classes;
}

bool contains(std::span<const Range> ranges, uint32_t c) {
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), c, [](uint32_t v, const Range& r) { return v < r.first; });
  return after != ranges.begin() && c <= std::prev(after)->last;
}

}  // namespace

int combining_class(uint32_t c) {
  if (c < 0x300 || contains(kUnordered, c)) return 0;
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

bool has_own_decomposition(uint32_t c) { return !contains(kUndecomposed, c); }

CharClass char_class(uint32_t code_point) {
  static const std::vector<CharClass> classes = build_classes();
  return code_point < classes.size() ? classes[code_point] : CharClass::removed;
}

void decompose(std::vector<uint32_t>& text) {
  if (std::all_of(text.begin(), text.end(), [](uint32_t c) { return c < 0xc0; })) return;
  std::vector<uint32_t> out;
  out.reserve(text.size() + 8);
  for (const uint32_t c : text) {
    utf8proc_int32_t buffer[32];
    int boundary = 0;
    const auto n =
        c < 0xc0 || contains(kUndecomposed, c)
            ? 0
            : utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), buffer, 32, UTF8PROC_DECOMPOSE, &boundary);
    if (n <= 0) out.push_back(c);
    for (std::ptrdiff_t i = 0; i < n; ++i) out.push_back(static_cast<uint32_t>(buffer[i]));
  }
  // Canonical ordering: sorts each run of non-starters by combining class, stably.
  for (size_t start = 0; start < out.size();) {
    size_t end = start;
    while (end < out.size() && combining_class(out[end]) != 0) ++end;
    if (end - start > 1) {
      std::stable_sort(out.begin() + static_cast<std::ptrdiff_t>(start), out.begin() + static_cast<std::ptrdiff_t>(end),
                       [](uint32_t a, uint32_t b) { return combining_class(a) < combining_class(b); });
    }
    start = std::max(end, start + 1);
  }
  text.swap(out);
}

uint32_t lower_case(uint32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  for (const Fold& f : kFold) {
    if (c >= f.first && c <= f.last) return f.to + (c - f.first);
  }
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

}  // namespace amp
