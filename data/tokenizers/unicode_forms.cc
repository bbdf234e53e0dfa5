// Implements NFC, NFD, NFKC and NFKD with utf8proc's tables, and reports for each character how it replaces the
// original ones (Change), so that offsets are kept. The tables in unicode_forms_tables.inc correct utf8proc to the
// Unicode version of the reference tokenizers.
#include "data/tokenizers/unicode_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <optional>
#include <span>

#include "base/utf8.h"
#include "data/tokenizers/bert_unicode.h"

namespace amp {

namespace {

struct CodeRange {
  uint32_t first, last;
};
#include "data/tokenizers/unicode_forms_tables.inc"

bool contains(std::span<const CodeRange> ranges, uint32_t c) {
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), c, [](uint32_t v, const CodeRange& r) { return v < r.first; });
  return after != ranges.begin() && c <= std::prev(after)->last;
}

const utf8proc_property_t& property(uint32_t c) { return *utf8proc_get_property(static_cast<utf8proc_int32_t>(c)); }

// Returns true if no form changes the character in any context. For some characters that do not change, the check would
// be expensive; for these, returns false.
bool inert(uint32_t c, bool compatible) {
  if (c < (compatible ? 0xa0u : 0xc0u)) return true;
  if (c >= 0x1100 && c <= 0x11ff) return false;  // Hangul letters compose by rule
  const utf8proc_property_t& p = property(c);
  return p.decomp_seqindex == UINT16_MAX && p.comb_index == UINT16_MAX && p.combining_class == 0 &&
         !(c >= 0xac00 && c <= 0xd7a3);
}

std::vector<Change> decomposed(const std::string& text, bool compatible) {
  std::vector<Change> out;
  const utf8proc_option_t options =
      compatible ? static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT) : UTF8PROC_DECOMPOSE;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    at += static_cast<size_t>(c.bytes);
    utf8proc_int32_t parts[32];
    int boundary = 0;
    const auto n = c.value < 0xa0 || !has_own_decomposition(c.value) || contains(kLaterCompatible, c.value)
                       ? 0
                       : utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.value), parts, 32, options, &boundary);
    if (n <= 0) out.push_back({c.value, 0});
    for (std::ptrdiff_t i = 0; i < n; ++i) out.push_back({static_cast<uint32_t>(parts[i]), i > 0});
  }
  // Canonical ordering: sorts each run of non-starters by combining class, stably.
  for (auto start = out.begin(); start != out.end();) {
    const auto end = std::find_if(start, out.end(), [](const Change& c) { return combining_class(c.c) == 0; });
    if (end - start > 1) {
      std::stable_sort(start, end,
                       [](const Change& a, const Change& b) { return combining_class(a.c) < combining_class(b.c); });
    }
    start = end == out.end() ? end : end + 1;
  }
  return out;
}

std::optional<uint32_t> composed(uint32_t a, uint32_t b) {
  if (!has_own_decomposition(a) || b < 0x300) return std::nullopt;
  utf8proc_int32_t pair[3] = {static_cast<utf8proc_int32_t>(a), static_cast<utf8proc_int32_t>(b), 0};
  if (utf8proc_normalize_utf32(pair, 2, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE)) != 1)
    return std::nullopt;
  const auto c = static_cast<uint32_t>(pair[0]);
  return has_own_decomposition(c) ? std::optional(c) : std::nullopt;
}

// Applies the canonical composition algorithm (Unicode 3.11, D117). The Change of a composite counts each character
// that was merged into it as dropped.
std::vector<Change> recomposed(const std::vector<Change>& in) {
  std::vector<Change> out;
  std::ptrdiff_t starter = -1;  // index of the starter in out
  int before = -1;              // combining class of the last character after the starter; -1: none
  for (const Change& c : in) {
    const int own = combining_class(c.c);
    if (starter >= 0 && before < own) {
      Change& s = out[static_cast<size_t>(starter)];
      const bool beside = before == -1;
      if (const auto made = beside || own != 0 ? composed(s.c, c.c) : std::nullopt) {
        s = {*made, s.change + c.change - 1};
        continue;
      }
    }
    if (own == 0) {
      starter = static_cast<std::ptrdiff_t>(out.size());
      before = -1;
    } else if (starter >= 0) {
      before = own;
    }
    out.push_back(c);
  }
  return out;
}

}  // namespace

bool is_combining_mark(uint32_t c) {
  const auto k = property(c).category;
  const bool mark = k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ME;
  return mark ? !contains(kNoMark, c) : contains(kLaterMark, c);
}

bool is_numeric(uint32_t c) {
  const auto k = property(c).category;
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO ||
         contains(kLaterNumber, c);
}

void normalize_form(NormalizedString& t, UnicodeForm form) {
  const bool compatible = form == UnicodeForm::nfkc || form == UnicodeForm::nfkd;
  const bool compose = form == UnicodeForm::nfc || form == UnicodeForm::nfkc;
  bool changes = false;
  for (size_t at = 0; at < t.text.size() && !changes;) {
    if (static_cast<unsigned char>(t.text[at]) < 0x80) {
      ++at;
      continue;
    }
    const CodePoint c = decode_utf8(t.text, at);
    at += static_cast<size_t>(c.bytes);
    changes = !inert(c.value, compatible) && !(compose && !compatible && c.value < 0x300);
  }
  if (!changes) return;
  const std::vector<Change> parts = decomposed(t.text, compatible);
  t.change(compose ? recomposed(parts) : parts);
}

}  // namespace amp
