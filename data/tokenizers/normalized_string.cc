// Implements NormalizedString, the counterpart of Hugging Face's NormalizedString and PreTokenizedString. Each byte
// stores its place in the original text; every step has to keep text and `from` equally long. Steps limit the size of
// the text.
#include "data/tokenizers/normalized_string.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "data/tokenizers/tokenizer_json.h"

namespace amp {

namespace {
void check_size(size_t bytes, size_t most = kMostText) {
  if (bytes > most)
    fail(Exit::data, "E_DATA_TEXT", cat("the tokenizer makes ", bytes, " bytes of a text, ", most, " is the most"),
         "cut the text into shorter ones");
}

// Limits the length of a replaced text that had `span` original bytes. Published tokenizers replace a byte by at most
// three; a chain of replacements can multiply the length at every step.
size_t most_after_replacement(size_t span) { return std::min(kMostText, (size_t{1} << 20) + 32 * span); }
}  // namespace

NormalizedString::NormalizedString(std::string_view original, uint32_t start) : text(original), origin(start) {
  check_size(text.size());
  from.resize(text.size());
  for (size_t at = 0; at < text.size();) {
    const int n = static_cast<unsigned char>(text[at]) < 0x80 ? 1 : decode_utf8(text, at).bytes;
    if (n == 0) fail(Exit::data, "E_DATA_UTF8", cat("the text is not UTF-8 at byte ", at), "convert the file to UTF-8");
    const TextPlace place = {start + static_cast<uint32_t>(at),
                             start + static_cast<uint32_t>(at) + static_cast<uint32_t>(n)};
    for (int i = 0; i < n; ++i) from[at++] = place;
  }
  if (!text.empty()) splits = {{0, static_cast<uint32_t>(text.size()), -1}};
}

TextPlace NormalizedString::place(const Split& s) const {
  if (s.begin < s.end) return {from[s.begin].begin, from[s.end - 1].end};
  const uint32_t at = s.begin < from.size() ? from[s.begin].begin : from.empty() ? origin : from.back().end;
  return {at, at};
}

void NormalizedString::append_bytes(std::string_view bytes, TextPlace place) {
  text += bytes;
  from.resize(text.size(), place);
}

void NormalizedString::change(const std::vector<Change>& changes, size_t dropped) {
  std::string old = std::move(text);
  std::vector<TextPlace> places = std::move(from);
  text.clear();
  from.clear();
  text.reserve(old.size());
  from.reserve(old.size());
  size_t at = 0;
  const auto skip = [&](size_t n) {
    for (; n > 0 && at < old.size(); --n) at += static_cast<size_t>(decode_utf8(old, at).bytes);
  };
  skip(dropped);
  std::string bytes;
  for (const Change& c : changes) {
    TextPlace place = {origin, origin};
    if (c.change <= 0 && at < places.size()) place = places[at];
    if (c.change > 0 && at > 0) place = places[at - 1];
    bytes.clear();
    append_utf8(bytes, c.c);
    append_bytes(bytes, place);
    if (c.change <= 0) skip(1 + static_cast<size_t>(-c.change));
  }
}

void NormalizedString::prepend(std::string_view with) {
  if (text.empty() || with.empty()) return;
  check_size(text.size() + with.size());
  text.insert(0, with);
  from.insert(from.begin(), with.size(), from.front());
}

Finder find_string(std::string pattern) {
  return [pattern = std::move(pattern)](std::string_view text, std::vector<Match>& out) {
    size_t last = 0;
    for (size_t at = pattern.empty() ? std::string_view::npos : text.find(pattern); at != std::string_view::npos;
         at = text.find(pattern, last)) {
      if (at > last) out.push_back({static_cast<uint32_t>(last), static_cast<uint32_t>(at), false});
      last = at + pattern.size();
      out.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(last), true});
    }
    if (last < text.size()) out.push_back({static_cast<uint32_t>(last), static_cast<uint32_t>(text.size()), false});
  };
}

Finder find_char(bool (*wanted)(uint32_t)) {
  return [wanted](std::string_view text, std::vector<Match>& out) {
    size_t last = 0;
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = decode_utf8(text, at);
      const size_t next = at + static_cast<size_t>(c.bytes);
      if (wanted(c.value)) {
        if (at > last) out.push_back({static_cast<uint32_t>(last), static_cast<uint32_t>(at), false});
        out.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(next), true});
        last = next;
      }
      at = next;
    }
    if (last < text.size()) out.push_back({static_cast<uint32_t>(last), static_cast<uint32_t>(text.size()), false});
  };
}

namespace {

// Applies a split rule to matches in place, as Hugging Face's SplitDelimiterBehavior does.
void apply_rule(SplitRule rule, std::vector<Match>& m) {
  switch (rule) {
    case SplitRule::isolated:
      return;
    case SplitRule::removed:
      std::erase_if(m, [](const Match& x) { return x.is_match; });
      return;
    case SplitRule::contiguous: {
      size_t n = 0;
      bool before = false;
      for (const Match& x : m) {
        if (x.is_match == before && n > 0)
          m[n - 1].end = x.end;
        else
          m[n++] = x;
        before = x.is_match;
      }
      m.resize(n);
      return;
    }
    case SplitRule::merged_with_previous: {
      size_t n = 0;
      bool before = false;
      for (const Match& x : m) {
        const bool is_match = x.is_match;
        if (is_match && !before && n > 0)
          m[n - 1].end = x.end;
        else
          m[n++] = x;
        before = is_match;
      }
      m.resize(n);
      return;
    }
    case SplitRule::merged_with_next: {
      std::vector<Match> out;
      bool after = false;
      for (size_t i = m.size(); i-- > 0;) {
        if (m[i].is_match && !after && !out.empty())
          out.back().begin = m[i].begin;
        else
          out.push_back(m[i]);
        after = m[i].is_match;
      }
      m.assign(out.rbegin(), out.rend());
      return;
    }
  }
}

}  // namespace

void split_all(NormalizedString& t, const Finder& find, SplitRule rule, bool invert) {
  std::vector<Split> out;
  std::vector<Match> matches;
  for (const Split& s : t.splits) {
    if (s.id >= 0) {
      out.push_back(s);
      continue;
    }
    matches.clear();
    find(t.at(s), matches);
    if (invert) {
      for (Match& m : matches) m.is_match = !m.is_match;
    }
    apply_rule(rule, matches);
    for (const Match& m : matches) {
      if (m.begin < m.end) out.push_back({s.begin + m.begin, s.begin + m.end, -1});
    }
  }
  t.splits = std::move(out);
}

void remake_all(NormalizedString& t, const std::function<void(NormalizedString&)>& remake) {
  NormalizedString out;
  out.origin = t.origin;
  out.text.reserve(t.text.size() * 2);
  out.from.reserve(t.text.size() * 2);
  for (const Split& s : t.splits) {
    NormalizedString part;
    part.text = t.at(s);
    part.from.assign(t.from.begin() + s.begin, t.from.begin() + s.end);
    part.origin = t.place(s).begin;
    if (s.id < 0) remake(part);
    check_size(out.text.size() + part.text.size());
    const auto begin = static_cast<uint32_t>(out.text.size());
    out.text += part.text;
    out.from.insert(out.from.end(), part.from.begin(), part.from.end());
    if (!part.text.empty()) out.splits.push_back({begin, static_cast<uint32_t>(out.text.size()), s.id});
  }
  t = std::move(out);
}

void replace_all(NormalizedString& t, const Finder& find, std::string_view content) {
  std::vector<Match> matches;
  find(t.text, matches);
  size_t size = 0;
  for (const Match& m : matches) size += m.is_match ? content.size() : m.end - m.begin;
  if (std::none_of(matches.begin(), matches.end(), [](const Match& m) { return m.is_match; })) return;
  check_size(size, most_after_replacement(t.from.empty() ? 0 : t.from.back().end - t.from.front().begin));
  std::string text;
  std::vector<TextPlace> from;
  text.reserve(size);
  from.reserve(size);
  for (const Match& m : matches) {
    if (m.is_match) {  // the bytes of `content` get the place of the last replaced byte
      const TextPlace place = m.end > 0 ? t.from[m.end - 1] : TextPlace{t.origin, t.origin};
      text += content;
      from.resize(text.size(), place);
    } else {
      text.append(t.text, m.begin, m.end - m.begin);
      from.insert(from.end(), t.from.begin() + m.begin, t.from.begin() + m.end);
    }
  }
  t.text = std::move(text);
  t.from = std::move(from);
}

}  // namespace amp
