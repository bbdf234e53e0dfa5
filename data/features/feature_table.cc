// Implements FeatureTable: a main table, joined tables and parts of dates as one set of columns. A Place stores the
// table and the column in which a name is found; Source::rows maps rows of the main table to rows of the joined one.
#include "data/features/feature_table.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "data/reader.h"

namespace amp {

bool is_missing(std::string_view text) {  // compares with the default na_values of pandas.read_csv
  static constexpr std::array<std::string_view, 17> words{"#N/A", "#N/A N/A", "#NA",     "-1.#IND", "-1.#QNAN", "-NaN",
                                                          "-nan", "1.#IND",   "1.#QNAN", "<NA>",    "N/A",      "NA",
                                                          "NULL", "NaN",      "None",    "n/a",     "nan"};
  if (text.empty()) return true;
  // A fast test: the text of nearly every cell begins with another character and is not missing.
  if (std::string_view("#-1<Nn").find(text[0]) == std::string_view::npos) return false;
  return text == "null" || std::find(words.begin(), words.end(), text) != words.end();
}

Join parse_join(const std::string& text) {
  const size_t at = text.rfind(':');
  Join out;
  if (at != std::string::npos) {
    out.file = text.substr(0, at);
    for (const std::string& key : split(text.substr(at + 1), ',')) {
      const size_t equal = key.find('=');
      out.keys.emplace_back(key.substr(0, equal), equal == std::string::npos ? key : key.substr(equal + 1));
    }
  }
  const bool empty =
      std::any_of(out.keys.begin(), out.keys.end(), [](const auto& k) { return k.first.empty() || k.second.empty(); });
  if (out.file.empty() || out.keys.empty() || empty)
    fail(Exit::usage, "E_FLAG_VALUE", cat("`join` '", printable(text), "' names no file and key"),
         "write FILE:KEY, FILE:KEY,KEY, or FILE:KEY=ITS_NAME_THERE");
  return out;
}

FeatureTable::FeatureTable(Table table) {
  sources_.push_back({std::move(table)});
  for (size_t c = 0; c < this->table().columns().size(); ++c) add_name(this->table().columns()[c], {0, c});
}

void FeatureTable::add_name(const std::string& name, const Place& place) {
  names_.push_back(name);
  places_[name] = place;
}

const DatePart* FeatureTable::part(const std::string& column) const {
  const auto at = places_.find(column);
  return at == places_.end() ? nullptr : at->second.part;
}

void FeatureTable::require(const std::string& column) const {
  if (has(column)) return;
  const std::string near = nearest(column, names_), delimiter = delimiter_hint(names_);
  fail(Exit::data, "E_DATA_COLUMN",
       cat(table().name(), ":1: no column '", printable(column), "'; there are: ", printable(amp::join(names_, ", "))),
       !delimiter.empty() ? delimiter
       : near.empty()     ? ""
                          : cat("did you mean '", printable(near), "'?"));
}

int64_t FeatureTable::join(const Join& join, Table other) {
  std::vector<FeatureColumn> here;
  std::vector<size_t> there;
  for (const auto& [mine, theirs] : join.keys) {
    require(mine);
    here.push_back(column(mine));
    there.push_back(other.column(theirs));
  }
  std::unordered_map<std::string, int64_t> rows;
  for (int64_t r = 0; r < other.rows(); ++r) {
    std::string key;
    for (const size_t c : there) key.append(trimmed(other.has(r, c) ? other.text(r, c) : std::string_view())) += '\x1f';
    const auto [at, fresh] = rows.emplace(std::move(key), r);
    if (!fresh)
      fail(Exit::data, "E_JOIN",
           cat(other.where(r, there[0]), ": the key '", printable(other.text(r, there[0])),
               "' of `join` is also in line ", other.line(at->second)),
           "a joined file has one row for each key; name more columns with FILE:KEY,KEY");
  }
  Source source{std::move(other)};
  int64_t without = 0;
  std::string key;
  for (int64_t r = 0; r < this->rows(); ++r) {
    key.clear();
    for (const FeatureColumn& c : here) key.append(c.texts[static_cast<size_t>(r)]) += '\x1f';
    const auto at = rows.find(key);
    source.rows.push_back(at == rows.end() ? -1 : at->second);
    without += at == rows.end();
  }
  const std::string stem = std::filesystem::path(source.table.name()).stem().string();
  for (size_t c = 0; c < source.table.columns().size(); ++c) {
    if (std::find(there.begin(), there.end(), c) != there.end()) continue;
    const std::string& name = source.table.columns()[c];
    add_name(has(name) ? cat(stem, ".", name) : name, {sources_.size(), c});
  }
  sources_.push_back(std::move(source));
  return without;
}

void FeatureTable::skip_failing(const std::function<void(int64_t)>& check) {
  const std::vector<int64_t> left = sources_.front().table.skip_failing(check);
  if (left.empty()) return;
  for (Source& s : sources_) {
    if (s.rows.empty()) continue;
    for (size_t to = 0; to < left.size(); ++to) s.rows[to] = s.rows[static_cast<size_t>(left[to])];
    s.rows.resize(left.size());
  }
}

void FeatureTable::add_parts(const std::string& column) {
  require(column);
  const Place dates = places_.at(column);
  for (const DatePart& part : date_parts()) {
    const std::string name = part_name(column, part);
    add_name(has(name) ? cat(column, "_", part.name) : name, {dates.source, dates.column, &part});
  }
}

std::string_view FeatureTable::text(const Place& place, int64_t row) const {
  const Source& s = sources_[place.source];
  const int64_t r = s.rows.empty() ? row : s.rows[static_cast<size_t>(row)];
  if (r < 0 || !s.table.has(r, place.column)) return {};
  const std::string_view t = trimmed(s.table.text(r, place.column));
  return is_missing(t) ? std::string_view() : t;
}

FeatureColumn FeatureTable::column(const std::string& name) const {
  require(name);
  const Place& place = places_.at(name);
  FeatureColumn out;
  out.texts.reserve(static_cast<size_t>(rows()));
  for (int64_t r = 0; r < rows(); ++r) out.texts.push_back(text(place, r));
  if (!place.part) return out;
  const auto own = std::make_shared<std::deque<std::string>>();
  std::unordered_map<std::string_view, std::string_view> known;  // so that equal dates are parsed only once
  std::string_view last, last_part;                              // a table is often sorted by its date
  for (int64_t r = 0; r < rows(); ++r) {
    std::string_view& t = out.texts[static_cast<size_t>(r)];
    if (t.empty()) continue;
    if (t == last) {
      t = last_part;
      continue;
    }
    last = t;
    const auto [at, fresh] = known.try_emplace(t);
    if (fresh) {
      const std::optional<Date> date = parse_date(t);
      if (!date)
        fail(Exit::data, "E_DATA_DATE", cat(where(r, name), ": '", printable(t), "' is no date"),
             "dates are written as 2015-07-31, optionally followed by a time");
      own->push_back(std::to_string(place.part->of(*date)));
      at->second = own->back();
    }
    t = last_part = at->second;
  }
  out.own = own;
  return out;
}

std::string FeatureTable::where(int64_t row, const std::string& column) const {
  const Place& place = places_.at(column);
  const Source& s = sources_[place.source];
  if (s.rows.empty()) return s.table.where(row, place.column);
  const int64_t r = s.rows[static_cast<size_t>(row)];
  return r < 0 ? table().where(row) : cat(s.table.where(r, place.column), ", joined to ", table().where(row));
}

}  // namespace amp
