// Implements Regex with PCRE2's JIT. Patterns are written for Oniguruma, so \w and \W are replaced by Oniguruma's
// class. Characters newer than PCRE2's Unicode are replaced in the subject by older ones of the same category and
// length.
#include "data/tokenizers/regex.h"

#include <algorithm>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"

namespace amp {

namespace {

struct Stand {
  uint32_t first, last, in_place;
};
constexpr Stand kStands[] = {
#include "data/tokenizers/regex_unicode_tables.inc"
};

// Oniguruma's \w: letters, marks, decimal digits, connectors, and six numerals of Latin-1.
constexpr const char* kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";

// Expands \w and \W; other syntax means the same in both engines.
std::string translated(const std::string& pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 'w')
        out += in_class ? kWord : cat("[", kWord, "]");
      else if (next == 'W' && !in_class)
        out += cat("[^", kWord, "]");
      else
        out += {c, next};
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

const Stand* stand_of(uint32_t c) {
  const auto* const after = std::upper_bound(std::begin(kStands), std::end(kStands), c,
                                             [](uint32_t v, const Stand& s) { return v < s.first; });
  return after != std::begin(kStands) && c <= std::prev(after)->last ? std::prev(after) : nullptr;
}

// Copies `text` to `known`, with each character that PCRE2's Unicode tables lack replaced by a character of the same
// category and number of bytes. Returns true if a character was replaced; otherwise `known` is not changed.
bool has_unknown(std::string_view text, std::string& known) {
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    // All characters that PCRE2's tables lack have three or more bytes.
    if (static_cast<unsigned char>(text[at]) < 0xe0) {
      ++at;
      continue;
    }
    const CodePoint c = decode_utf8(text, at);
    if (const Stand* const s = stand_of(c.value)) {
      if (!found) known = text;
      found = true;
      std::string bytes;
      append_utf8(bytes, s->in_place);
      known.replace(at, bytes.size(), bytes);
    }
    at += static_cast<size_t>(std::max(c.bytes, 1));
  }
  return found;
}

struct MatchData {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  ~MatchData() { pcre2_match_data_free(data); }
};

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  std::string pattern;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(const std::string& pattern) {
  const std::string text = translated(pattern);
  int error = 0;
  PCRE2_SIZE at = 0;
  auto made = std::make_shared<Code>();
  made->pattern = pattern;
  // MULTILINE and a dot that stops at newlines are Ruby's rules. NEVER_BACKSLASH_C keeps matches on whole characters.
  made->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (!made->code) {
    PCRE2_UCHAR message[128];
    pcre2_get_error_message(error, message, sizeof message);
    fail(Exit::data, "E_TOKENIZER",
         cat("the tokenizer's regular expression '", printable(pattern),
             "' is not understood: ", reinterpret_cast<const char*>(message)),
         "expressions are read as PCRE2 reads them");
  }
  pcre2_jit_compile(made->code, PCRE2_JIT_COMPLETE);
  code_ = std::move(made);
}

void Regex::find_all(std::string_view text, std::vector<Match>& out) const {
  static thread_local const MatchData scratch;
  std::string known;
  const std::string_view subject = has_unknown(text, known) ? std::string_view(known) : text;
  const auto* const bytes = reinterpret_cast<PCRE2_SPTR>(subject.data());
  size_t last = 0, at = 0;
  while (at <= subject.size()) {
    const int n = pcre2_match(code_->code, bytes, subject.size(), at, PCRE2_NO_UTF_CHECK, scratch.data, nullptr);
    if (n == PCRE2_ERROR_NOMATCH) break;
    if (n < 0) {
      fail(Exit::data, "E_TOKENIZER",
           cat("the tokenizer's regular expression '", printable(code_->pattern), "' fails on a text of ", text.size(),
               " bytes (PCRE2 error ", n, ")"),
           "shorten the text");
    }
    const PCRE2_SIZE* const found = pcre2_get_ovector_pointer(scratch.data);
    const size_t begin = found[0], end = found[1];
    if (begin > last) out.push_back({static_cast<uint32_t>(last), static_cast<uint32_t>(begin), false});
    if (end > begin) out.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end), true});
    last = end;
    at = end > begin
             ? end
             : end + static_cast<size_t>(end < subject.size() ? std::max(decode_utf8(subject, end).bytes, 1) : 1);
  }
  if (last < text.size()) out.push_back({static_cast<uint32_t>(last), static_cast<uint32_t>(text.size()), false});
}

Finder Regex::finder() const {
  return [copy = *this](std::string_view text, std::vector<Match>& out) { copy.find_all(text, out); };
}

}  // namespace amp
