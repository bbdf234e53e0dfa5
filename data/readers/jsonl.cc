// Reads JSON lines: an object per line. Columns are the keys in order of appearance; numbers and booleans become their
// text. Also reads a JSON array of such objects, and an object whose "data" is such an array.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/json_nesting.h"
#include "base/text.h"
#include "data/reader.h"

namespace amp {

namespace {

using nlohmann::ordered_json;
constexpr int kMaxDepth = 100;

// A part of the file (one JSON value) and the line and column where it begins, from 1.
struct Part {
  std::string_view text;
  int64_t line = 1;
  size_t column = 1;
};

[[noreturn]] void refuse(const TableBuilder& out, int64_t line, size_t column, const std::string& what) {
  fail(Exit::data, "E_DATA_JSON", cat(out.name(), ":", line, ":", column, ": ", what),
       "write one JSON object a line, such as {\"text\": \"...\", \"label\": \"...\"}, or an array of them");
}

// Reports an error with the line and column of byte `byte` (from 1) of a part.
[[noreturn]] void refuse(const TableBuilder& out, const Part& part, size_t byte, const std::string& what) {
  const std::string_view before = part.text.substr(0, byte > 0 ? byte - 1 : 0);
  const size_t newline = before.rfind('\n');
  const int64_t line = part.line + std::count(before.begin(), before.end(), '\n');
  refuse(out, line, newline == std::string_view::npos ? part.column + before.size() : before.size() - newline, what);
}

ordered_json parse_object(const Part& part, const TableBuilder& out) {
  if (part.text.size() > kMaxField)
    refuse(out, part, 1, cat("the object has ", part.text.size(), " bytes, at most ", kMaxField));
  std::set<std::string> keys;
  std::string problem;
  std::vector<int64_t> count(kMaxDepth + 2);  // number of keys of the object that is open at each depth
  const auto watch = [&](int depth, ordered_json::parse_event_t event, ordered_json& value) {
    if (depth > kMaxDepth) problem = cat("nested deeper than ", kMaxDepth);
    if (problem.empty() && event == ordered_json::parse_event_t::object_start)
      count[static_cast<size_t>(depth) + 1] = 0;
    if (problem.empty() && event == ordered_json::parse_event_t::key &&
        ++count[static_cast<size_t>(depth)] > kMostJsonKeys)
      problem = cat("an object has more than ", kMostJsonKeys, " keys");
    if (problem.empty() && event == ordered_json::parse_event_t::key && depth == 1 &&
        !keys.insert(value.get<std::string>()).second) {
      problem = cat("key '", printable(value.get<std::string>()), "' is repeated");
    }
    return problem.empty();
  };
  ordered_json object;
  try {
    object = ordered_json::parse(part.text, watch);
  } catch (const ordered_json::parse_error& e) {
    refuse(out, part, e.byte, "not valid JSON");
  } catch (const ordered_json::exception& e) {
    refuse(out, part, 1, printable(e.what()));
  }
  if (!problem.empty()) refuse(out, part, 1, problem);
  if (!object.is_object()) refuse(out, part, 1, cat("a JSON ", object.type_name(), ", not an object"));
  return object;
}

// Scans JSON for brackets and strings without parsing it, to find the parts of large files.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view bytes) : bytes_(bytes) {}

  char next() {  // skips spaces; 0: the end
    while (at_ < bytes_.size() && std::string_view(" \t\r\n").find(bytes_[at_]) != std::string_view::npos) advance();
    return at_ < bytes_.size() ? bytes_[at_] : '\0';
  }
  void advance() {
    if (bytes_[at_++] != '\n') return;
    ++line_;
    line_begin_ = at_;
  }
  Part value() {  // ends at a comma or at the enclosing bracket
    next();
    Part part{{}, line_, at_ - line_begin_ + 1};
    const size_t begin = at_;
    int64_t depth = 0;
    for (; at_ < bytes_.size(); advance()) {
      const char c = bytes_[at_];
      if (c == '"') {
        text();
        if (at_ == bytes_.size()) break;
      } else if (c == '[' || c == '{') {
        ++depth;
      } else if ((c == ']' || c == '}') && depth-- == 0) {
        break;
      } else if ((c == ',' || c == ':') && depth == 0) {
        break;
      }
    }
    part.text = bytes_.substr(begin, at_ - begin);
    return part;
  }
  [[noreturn]] void refuse_here(const TableBuilder& out, const std::string& what) const {
    refuse(out, line_, at_ - line_begin_ + 1, what);
  }

 private:
  void text() {  // skips a string
    for (advance(); at_ < bytes_.size() && bytes_[at_] != '"'; advance()) {
      if (bytes_[at_] == '\\' && at_ + 1 < bytes_.size()) advance();
    }
  }
  std::string_view bytes_;
  size_t at_ = 0, line_begin_ = 0;
  int64_t line_ = 1;
};

// Finds the elements of an array that begins at the scanner's position and moves past the array. Returns false if the
// array has no end.
bool elements(JsonScanner& scan, std::vector<Part>& out) {
  scan.advance();
  if (scan.next() != ']') {
    out.push_back(scan.value());
    for (; scan.next() == ','; out.push_back(scan.value())) scan.advance();
    if (scan.next() != ']') return false;
  }
  scan.advance();
  return true;
}

// Returns the elements of "data" if one object is the whole file. Returns nothing if there is no such array or if the
// object is followed by more text.
std::vector<Part> data_of(std::string_view bytes) {
  JsonScanner scan(bytes);
  std::vector<Part> found;
  scan.next();
  scan.advance();
  while (scan.next() == '"') {
    const std::string_view key = scan.value().text;
    if (scan.next() != ':') return {};
    scan.advance();
    if (key == "\"data\"" && scan.next() == '[') {
      if (!elements(scan, found)) return {};
    } else {
      scan.value();
    }
    if (scan.next() == ',') scan.advance();
  }
  if (scan.next() != '}') return {};
  scan.advance();
  const bool objects = !found.empty() && found[0].text.starts_with('{');
  return scan.next() == '\0' && objects ? found : std::vector<Part>();
}

// Calls f(part) for each object that is a row.
template <class F>
void for_each_part(std::string_view bytes, const TableBuilder& out, F&& f) {
  JsonScanner scan(bytes);
  const char first = scan.next();
  std::vector<Part> parts;
  if (first == '[') {
    if (!elements(scan, parts))
      refuse(out, parts.back(), 1, "no comma and no end of the array follow what begins here");
    if (scan.next() != '\0') scan.refuse_here(out, "something follows the array");
    std::for_each(parts.begin(), parts.end(), f);
    return;
  }
  const std::string_view first_line = bytes.substr(0, bytes.find('\n'));
  const bool one = first_line.find("\"data\"") != std::string_view::npos || !nlohmann::json::accept(first_line);
  if (first == '{' && one) parts = data_of(bytes);  // otherwise an object that ends with its line is a row
  std::for_each(parts.begin(), parts.end(), f);
  for (int64_t line = 1; parts.empty() && !bytes.empty(); ++line) {
    const size_t end = bytes.find('\n');
    const std::string_view text = bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    if (text.find_first_not_of(" \t\r") != std::string_view::npos) f(Part{text, line, 1});
  }
}

void add_value(const ordered_json* value, TableBuilder& out) {
  if (!value || value->is_null()) {
    out.add_absent();
  } else if (value->is_string()) {
    out.add_text(value->get_ref<const std::string&>());
  } else if (value->is_structured()) {
    out.add_structure(value->dump());
  } else {
    out.add_literal(value->dump());
  }
}

void parse_json_lines(std::string_view bytes, const TableOptions&, TableBuilder& out) {
  out.rows_may_lack_columns();
  std::map<std::string, size_t> known;
  std::vector<const ordered_json*> values;
  if (bytes.starts_with("\xef\xbb\xbf")) bytes.remove_prefix(3);
  for_each_part(bytes, out, [&](const Part& part) {
    ordered_json object;
    if (!out.try_row(part.line, [&] { object = parse_object(part, out); })) return;
    values.assign(known.size(), nullptr);
    for (const auto& [key, value] : object.items()) {
      const auto [at, fresh] = known.emplace(key, values.size());
      if (fresh) {
        out.columns().push_back(key);
        values.push_back(nullptr);
      }
      values[at->second] = &value;
    }
    out.begin_row(part.line, static_cast<size_t>(part.text.data() - bytes.data()));
    for (const ordered_json* v : values) add_value(v, out);
  });
}

const ReaderRegistration jsonl_row{
    {"jsonl", {".jsonl", ".json"}, "a JSON object a line, or an array of them", parse_json_lines}};

}  // namespace

}  // namespace amp
