// Implements label_spelling.h: finds labels that differ only in spelling, and parses lists that were stored as text.
// Python's str(list), NumPy's array(...) and JSON write lists differently; parse_list_text accepts all three.
#include "data/label_spelling.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"

namespace amp {

namespace {

constexpr std::string_view kSpaces = " \t\r\n\v\f";

// Returns the label with ASCII letters in lower case and each run of spaces as one.
std::string folded(std::string_view label) {
  std::string out;
  bool space = false;
  for (const char c : label) {
    if (kSpaces.find(c) != std::string_view::npos) {
      space = !out.empty();
      continue;
    }
    if (std::exchange(space, false)) out += ' ';
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  }
  return out;
}

// Reads a quoted list element that starts at text[at]. Returns the index after it, or npos if the quote is not closed
// or an escape is unknown.
size_t read_quoted(std::string_view text, size_t at, std::string& out) {
  const char quote = text[at++];
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == quote) return at + 1;
    if (c != '\\') {
      out += c;
      continue;
    }
    if (++at == text.size()) return std::string_view::npos;
    const char e = text[at];
    if (e == '\'' || e == '"' || e == '\\' || e == '/') {
      out += e;
    } else if (e == 'n' || e == 't' || e == 'r') {
      out += e == 'n' ? '\n' : e == 't' ? '\t' : '\r';
    } else if (e == 'x' || e == 'u' || e == 'U') {
      const size_t digits = e == 'x' ? 2 : e == 'u' ? 4 : 8;
      uint32_t value = 0;
      for (size_t i = 0; i < digits; ++i) {
        if (++at >= text.size()) return std::string_view::npos;
        const size_t digit = std::string_view("0123456789abcdef").find(static_cast<char>(text[at] | 0x20));
        if (digit == std::string_view::npos) return digit;
        value = value << 4 | static_cast<uint32_t>(digit);
      }
      if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return std::string_view::npos;
      append_utf8(out, value);
    } else {
      return std::string_view::npos;
    }
  }
  return std::string_view::npos;
}

std::string_view skip_spaces(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
  return text;
}

// Removes a call around a list: "array(['a'], dtype=object)" becomes "['a']".
std::string_view without_call(std::string_view text) {
  text = trimmed(text);
  for (const std::string_view call : {"array(", "set(", "frozenset(", "list(", "tuple("}) {
    const size_t end = text.find_last_of("]})", text.size() - 2);
    if (!text.starts_with(call) || !text.ends_with(')') || end == std::string_view::npos || end < call.size()) continue;
    return trimmed(text.substr(call.size(), end + 1 - call.size()));
  }
  return text;
}

// Returns the end of an element without quotes: the next comma, or the next space for NumPy's numbers.
size_t bare_end(std::string_view text) {
  const size_t end = std::min(text.find(','), text.size());
  const bool numbers = text.find_first_not_of("0123456789+-.eE \n\t") == std::string_view::npos;
  return numbers ? std::min(text.find_first_of(kSpaces), text.size()) : end;
}

}  // namespace

bool looks_like_list(std::string_view text) {
  text = without_call(text);
  if (text.size() < 2) return false;
  if (text.front() == '[') return text.back() == ']';
  // A tuple or set must begin with a quoted element, because "(other)" is a name.
  const std::string_view inner = skip_spaces(text.substr(1, text.size() - 2));
  const bool quoted = inner.starts_with('\'') || inner.starts_with('"');
  return quoted && ((text.front() == '(' && text.back() == ')') || (text.front() == '{' && text.back() == '}'));
}

bool parse_list_text(std::string_view text, std::vector<std::string>& elements) {
  if (!looks_like_list(text)) return false;
  text = without_call(text);
  text = text.substr(1, text.size() - 2);
  for (text = skip_spaces(text); !text.empty(); text = skip_spaces(text)) {
    std::string element;
    size_t end = 0;
    if ((text[0] == 'u' || text[0] == 'b') && text.size() > 1 && (text[1] == '\'' || text[1] == '"'))
      text.remove_prefix(1);  // removes the prefix of Python 2's u'a'
    if (text[0] == '\'' || text[0] == '"') {
      end = read_quoted(text, 0, element);
      if (end == std::string_view::npos) return false;
    } else {
      end = bare_end(text);
      element = std::string(trimmed(text.substr(0, end)));
      if (element.empty() || element.find_first_of("'\"[](){}") != std::string::npos) return false;
    }
    elements.push_back(std::move(element));
    text = skip_spaces(text.substr(end));
    if (text.starts_with(',')) text.remove_prefix(1);  // NumPy separates elements by spaces only
  }
  return true;
}

void trim_labels(Table& table, const std::string& column) {
  const size_t c = table.column(column);
  std::map<std::string, std::string> shorter;
  int64_t rows = 0, first = 0;
  for (int64_t r = 0; r < table.rows(); ++r) {
    if (!table.has(r, c) || table.is_json(r, c)) continue;
    const std::string_view text = table.text(r, c), label = trimmed(text);
    if (label.size() == text.size()) continue;
    if (rows++ == 0) first = r;
    shorter.emplace(text, label);
  }
  if (shorter.empty()) return;
  table.replace(c, shorter);
  const std::string& file = table.names()[static_cast<size_t>(table.file(first))];
  table.add_note(cat(file, ": ", with_thousands(rows), rows == 1 ? " label has" : " labels have",
                     " spaces around, which are dropped: '", printable(shorter.begin()->first), "' is read as '",
                     printable(shorter.begin()->second), "' (`trim_labels` false keeps them)"));
}

std::vector<std::string> suspicious_labels(const std::vector<std::string>& labels) {
  constexpr size_t kShown = 5;
  std::map<std::string, std::vector<std::string>> groups;
  int64_t lists = 0;
  for (const std::string& label : labels) {
    groups[folded(label)].push_back(label);
    lists += looks_like_list(label);
  }
  std::vector<std::string> out;
  size_t more = 0;
  for (const auto& [key, same] : groups) {
    if (same.size() < 2) continue;
    if (out.size() == kShown) {
      ++more;
      continue;
    }
    std::string names, flags;
    for (const std::string& label : same) {
      names += cat(names.empty() ? "'" : ", '", printable(label), "'");
      if (label != same.back()) flags += cat(" `label_map` '", printable(label), "=", printable(same.back()), "'");
    }
    out.push_back(cat("the labels ", names, " differ only in capital letters or spaces and are ", same.size(),
                      " classes;", flags, " makes them one"));
  }
  if (more)
    out.push_back(cat("... and ", more, " groups more of labels that differ only in capital letters or spaces"));
  if (lists > 0 && 2 * lists > static_cast<int64_t>(labels.size()))
    out.push_back(cat("labels read like lists, as '", printable(labels.front()),
                      "': each combination is a separate class; `task` multilabel reads their elements"));
  return out;
}

}  // namespace amp
