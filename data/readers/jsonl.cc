// JSON lines: an object per line; columns are the keys in order of appearance; numbers and booleans read as their text.
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "data/reader.h"

namespace amp {

namespace {

using nlohmann::ordered_json;
constexpr int kMaxDepth = 100;

[[noreturn]] void bad_line(const TableBuilder& out, int64_t line, size_t column, const std::string& what) {
  fail(Exit::data, "E_DATA_JSON", cat(out.name(), ":", line, ":", column, ": ", what),
       "each line must be one JSON object, such as {\"text\": \"...\", \"label\": \"...\"}");
}

ordered_json parse_line(std::string_view text, int64_t line, const TableBuilder& out) {
  if (text.size() > kMaxField) bad_line(out, line, 1, cat("the line has ", text.size(), " bytes, at most ", kMaxField));
  std::set<std::string> keys;
  std::string problem;
  const auto watch = [&](int depth, ordered_json::parse_event_t event, ordered_json& value) {
    if (depth > kMaxDepth) problem = cat("nested deeper than ", kMaxDepth);
    if (problem.empty() && event == ordered_json::parse_event_t::key && depth == 1 &&
        !keys.insert(value.get<std::string>()).second) {
      problem = cat("key '", printable(value.get<std::string>()), "' is repeated");
    }
    return problem.empty();
  };
  ordered_json object;
  try {
    object = ordered_json::parse(text, watch);
  } catch (const ordered_json::parse_error& e) {
    bad_line(out, line, e.byte, "not valid JSON");
  } catch (const ordered_json::exception& e) {
    bad_line(out, line, 1, printable(e.what()));
  }
  if (!problem.empty()) bad_line(out, line, 1, problem);
  if (!object.is_object()) bad_line(out, line, 1, cat("a JSON ", object.type_name(), ", not an object"));
  return object;
}

void parse_json_lines(std::string_view bytes, const TableOptions&, TableBuilder& out) {
  out.rows_may_lack_columns();
  struct Row {
    int64_t line;
    ordered_json object;
  };
  std::vector<Row> rows;
  std::map<std::string, size_t> known;
  int64_t line = 0;
  while (!bytes.empty()) {
    ++line;
    const size_t end = bytes.find('\n');
    std::string_view text = bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    if (text.substr(0, 3) == "\xef\xbb\xbf") text.remove_prefix(3);
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    rows.push_back({line, parse_line(text, line, out)});
    for (const auto& [key, value] : rows.back().object.items()) {
      if (known.emplace(key, out.columns().size()).second) out.columns().push_back(key);
    }
  }
  for (const Row& row : rows) {
    out.begin_row(row.line);
    std::vector<const ordered_json*> values(out.columns().size(), nullptr);
    for (const auto& [key, value] : row.object.items()) values[known.at(key)] = &value;
    for (const ordered_json* v : values) {
      if (!v || v->is_null()) {
        out.add_absent();
      } else if (v->is_string()) {
        out.add_text(v->get_ref<const std::string&>());
      } else if (v->is_structured()) {
        out.add_structure(v->dump());
      } else {
        out.add_literal(v->dump());
      }
    }
  }
}

const ReaderRegistration registered{{"jsonl", {".jsonl", ".json"}, "a JSON object a line", parse_json_lines}};

}  // namespace

}  // namespace amp
