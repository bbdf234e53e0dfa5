// Implements labels.h: reads the label column of a table as class ids, numbers, or sets of names. Errors name the row's
// file and line. LabelIndex (data/class_names.h) decides which class a label denotes.
#include "data/labels.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/text.h"
#include "data/label_spelling.h"

namespace amp {

namespace {

std::string_view label(const Table& table, int64_t row, size_t column) {
  const std::string_view text = table.has(row, column) ? table.text(row, column) : std::string_view();
  if (text.empty()) {
    fail(Exit::data, "E_DATA_LABEL",
         cat(table.where(row), ": no label in column '", printable(table.columns()[column]), "'"),
         "fill it in, remove the row, or skip such rows with `skip_bad_rows`");
  }
  return text;
}

}  // namespace

std::vector<std::string> distinct_labels(const Table& table, const std::string& column) {
  const size_t c = table.column(column);
  std::unordered_set<std::string> values;
  std::string last;
  for (int64_t r = 0; r < table.rows(); ++r) {
    const std::string_view value = label(table, r, c);
    if (value != last) values.insert(last = value);
  }
  std::vector<std::string> out(values.begin(), values.end());
  sort_naturally(out);
  return out;
}

std::vector<std::string> find_classes(const Table& table, const std::string& column) {
  std::vector<std::string> out = distinct_labels(table, column);
  if (out.size() == 1) {
    fail(Exit::data, "E_DATA_LABEL",
         cat(table.name(), ":1: all ", table.rows(), " rows have the label '", printable(out[0]), "' in column '",
             printable(column), "': there are no classes to distinguish"),
         "check `label_column`, or whether the file was cut or sorted by label");
  }
  return out;
}

void refuse_label(const std::string& what, const ClassNames& classes) {
  const std::vector<std::string> shown(
      classes.names.begin(), classes.names.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(classes.size(), 20)));
  std::vector<std::string> texts;
  for (const std::string& name : shown) texts.push_back(printable(name));
  const std::string list = join(texts, ", ") + (classes.size() > shown.size() ? ", ..." : "");
  if (classes.of_model)
    fail(
        Exit::data, "E_DATA_LABEL_NEW",
        cat(what, " is none of the classes of the model's head; its ", classes.size(), " classes are: ", list),
        "correct the row; `label_map` OLD=NEW reads a label as another; `labels` names the head's classes in the order "
        "of its outputs; `num_labels` N (of another size) or `head` classification makes a new head");
  fail(Exit::data, "E_DATA_LABEL_NEW", cat(what, " is not known; the ", classes.size(), " known labels are: ", list),
       "labels come from the training data; correct the row or add such rows to the training data");
}

namespace {

int64_t class_id(const Table& table, int64_t row, const std::string& column, std::string_view value,
                 const LabelIndex& index, const ClassNames& classes) {
  const auto match = index.find(value);
  if (!match)
    refuse_label(cat(table.where(row), ": label '", printable(value), "' in column '", printable(column), "'"),
                 classes);
  return match->id;
}

}  // namespace

std::vector<int64_t> class_ids(const Table& table, const std::string& column, const ClassNames& classes) {
  const size_t c = table.column(column);
  const LabelIndex index(classes);
  std::unordered_map<std::string, int64_t> ids;  // label -> id, of labels seen so far
  std::vector<int64_t> out;
  for (int64_t r = 0; r < table.rows(); ++r) {
    const std::string value(label(table, r, c));
    auto known = ids.find(value);
    if (known == ids.end()) known = ids.emplace(value, class_id(table, r, column, value, index, classes)).first;
    out.push_back(known->second);
  }
  return out;
}

namespace {

std::optional<float> finite_number(std::string_view text) {
  float v = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(v)) return std::nullopt;
  return v;
}

char find_separator(const Table& table, size_t column) {
  for (const char c : {'|', ';', ','}) {
    for (int64_t r = 0; r < table.rows(); ++r) {
      if (!table.has(r, column) || table.is_json(r, column)) continue;
      const std::string_view text = table.text(r, column);
      if (!looks_like_list(text) && text.find(c) != std::string_view::npos) return c;
    }
  }
  return '|';
}

std::vector<std::string> names_in_json(const Table& table, int64_t row, size_t column) {
  std::vector<std::string> names;
  const nlohmann::json j = nlohmann::json::parse(table.json(row, column));
  for (const auto& name : j) {
    if (!j.is_array() || name.is_structured() || name.is_null()) {
      fail(Exit::data, "E_DATA_LABEL",
           cat(table.where(row), ": the labels in column '", printable(table.columns()[column]),
               "' are no array of names"),
           "write a JSON list of texts");
    }
    names.push_back(name.is_string() ? name.get<std::string>() : name.dump());
  }
  return names;
}

// Refuses multi-hot lists such as [0, 1, 0], which hold a 0 or 1 for each label instead of names. A list that contains
// 0 or 1 twice is multi-hot.
void refuse_multi_hot(const Table& table, const std::string& column,
                      const std::vector<std::vector<std::string>>& sets) {
  bool repeated = false;
  size_t width = 0;
  for (const std::vector<std::string>& set : sets) {
    if (set.empty()) continue;
    if (width == 0) width = set.size();
    if (set.size() != width) return;
    for (const std::string& name : set) {
      if (name != "0" && name != "1" && name != "0.0" && name != "1.0") return;
    }
    repeated = repeated || std::set<std::string>(set.begin(), set.end()).size() < set.size();
  }
  if (repeated)
    fail(Exit::data, "E_DATA_LABEL",
         cat(table.name(), ": the lists in column '", printable(column), "' hold 0 or 1 for each of ", width,
             " labels, not names"),
         "write the names of the labels that a row has, as a|b or ['a', 'b']; or give tensors");
}

}  // namespace

namespace {

std::vector<std::string> names_of_row(const Table& table, int64_t row, size_t column, char separator) {
  std::vector<std::string> out;
  if (!table.has(row, column)) return out;
  if (table.is_json(row, column)) return names_in_json(table, row, column);
  std::string_view rest = table.text(row, column);
  if (looks_like_list(rest)) {
    if (parse_list_text(rest, out)) return out;
    fail(Exit::data, "E_DATA_LABEL",
         cat(table.where(row), ": '", printable(rest), "' in column '", printable(table.columns()[column]),
             "' begins and ends like a list and is none that can be read"),
         "write labels as a|b, or as ['a', 'b']");
  }
  while (true) {
    const size_t at = rest.find(separator);
    const std::string_view name = trimmed(rest.substr(0, at));
    if (!name.empty()) out.emplace_back(name);
    if (at == std::string_view::npos) return out;
    rest.remove_prefix(at + 1);
  }
}

void set_names(const Table& table, int64_t row, const std::vector<std::string>& names, const LabelIndex& index,
               const ClassNames& classes, float* to) {
  for (const std::string& name : names) {
    const auto match = index.find(name);
    if (!match) refuse_label(cat(table.where(row), ": label '", printable(name), "'"), classes);
    if (to) to[match->id] = 1;
  }
}

}  // namespace

std::vector<std::vector<std::string>> label_sets(const Table& table, const std::string& column, char separator) {
  const size_t c = table.column(column);
  if (!separator) separator = find_separator(table, c);
  std::vector<std::vector<std::string>> out;
  for (int64_t r = 0; r < table.rows(); ++r) out.push_back(names_of_row(table, r, c, separator));
  refuse_multi_hot(table, column, out);
  return out;
}

std::vector<std::string> find_names(const std::vector<std::vector<std::string>>& sets) {
  std::unordered_set<std::string> names;
  for (const auto& row : sets) names.insert(row.begin(), row.end());
  if (names.empty()) fail(Exit::data, "E_DATA_LABEL", "no row has a label", "check `label_column`");
  std::vector<std::string> out(names.begin(), names.end());
  sort_naturally(out);
  return out;
}

std::vector<float> multi_hot(const Table& table, const std::vector<std::vector<std::string>>& sets,
                             const ClassNames& classes) {
  const LabelIndex index(classes);
  std::vector<float> out(sets.size() * classes.size());
  for (size_t r = 0; r < sets.size(); ++r)
    set_names(table, static_cast<int64_t>(r), sets[r], index, classes, out.data() + r * classes.size());
  return out;
}

bool is_regression_column(const Table& table, const std::string& column) {
  const size_t c = table.column(column);
  const int64_t most = std::min(table.may_skip(), table.rows() / 10);  // rows that may be skipped
  bool fractions = false;
  int64_t others = 0;
  for (int64_t r = 0; r < table.rows(); ++r) {
    const bool text = table.has(r, c) && !table.is_json(r, c);
    const std::optional<float> v = text ? finite_number(table.text(r, c)) : std::nullopt;
    if (!v && ++others > most) return false;
    fractions |= v && *v != std::floor(*v);
  }
  return fractions;
}

namespace {

float label_number(const Table& table, int64_t row, size_t column) {
  const std::string_view text = label(table, row, column);
  const auto v = finite_number(text);
  if (!v)
    fail(Exit::data, "E_DATA_LABEL", cat(table.where(row), ": label '", printable(text), "' is not a finite number"),
         "correct it or remove the row; is `task` classification meant?");
  return *v;
}

}  // namespace

std::vector<float> label_numbers(const Table& table, const std::string& column) {
  const size_t c = table.column(column);
  std::vector<float> out;
  for (int64_t r = 0; r < table.rows(); ++r) out.push_back(label_number(table, r, c));
  return out;
}

LabelCheck::LabelCheck(const Table& table, const std::string& column, LabelForm form, const ClassNames& classes)
    : table_(table),
      column_(table.column(column)),
      form_(form),
      classes_(classes),
      index_(classes),
      separator_(form == LabelForm::sets ? find_separator(table, column_) : '|') {}

void LabelCheck::operator()(int64_t row) const {
  if (form_ == LabelForm::numbers) {
    label_number(table_, row, column_);
  } else if (form_ == LabelForm::sets) {
    const std::vector<std::string> names = names_of_row(table_, row, column_, separator_);
    if (!classes_.empty()) set_names(table_, row, names, index_, classes_, nullptr);
  } else if (form_ == LabelForm::classes) {
    const std::string_view value = label(table_, row, column_);
    if (!classes_.empty()) class_id(table_, row, table_.columns()[column_], value, index_, classes_);
  }
}

}  // namespace amp
