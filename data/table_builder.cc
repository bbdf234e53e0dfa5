#include "data/table_builder.h"

#include <cstdint>

#include "base/error.h"

namespace amp {

namespace {
constexpr size_t kReported = 1024;  // rows between two reports of the number of parsed bytes; a power of two
}

void TableBuilder::begin_row(int64_t line, size_t at) {
  end_row();
  if (reading_ && (table_.lines_.size() & (kReported - 1)) == 0) reading_->reach(static_cast<int64_t>(at));
  const size_t width = table_.columns_.size();
  const bool other = widths_.empty() || widths_.back().second != width;
  if (table_.open_ended_ && other) widths_.emplace_back(rows(), width);
  table_.lines_.push_back(line);
  table_.files_.push_back(static_cast<int32_t>(table_.names_.size() - 1));
  row_start_ = table_.cells_.size();
}

void TableBuilder::skip(const Error& error, int64_t line) {
  if (error.exit() != Exit::data || table_.may_skip() <= 0) throw;
  table_.skipped_.push_back({name(), line, error.fact()});
}

// Adds absent cells to a row that has fewer cells than there are columns.
void TableBuilder::end_row() {
  while (!widths_.empty() && cells_in_row() < widths_.back().second) add_absent();
}

void TableBuilder::add(std::string_view text, Table::Kind kind, uint32_t place) {
  check(text.size() <= UINT32_MAX, "TableBuilder: a cell is too long");
  const std::string_view file = table_.sources_[0].text();
  const auto begin = reinterpret_cast<uintptr_t>(file.data()), at = reinterpret_cast<uintptr_t>(text.data());
  const bool in_file = table_.names_.size() == 1 && at >= begin && at + text.size() <= begin + file.size();
  table_.cells_.push_back(
      {in_file ? at - begin : table_.text_.size(), static_cast<uint32_t>(text.size()), place, kind, in_file});
  if (!in_file) table_.text_.append(text);
}

void TableBuilder::add_row(int64_t line, std::span<const std::string_view> fields, std::span<const uint32_t> places) {
  const std::string_view file = table_.sources_[0].text();
  begin_row(line, fields.empty() ? 0 : static_cast<size_t>(fields[0].data() - file.data()));
  const size_t at = table_.cells_.size();
  table_.cells_.resize(at + fields.size());
  Table::Cell* cell = table_.cells_.data() + at;
  for (size_t i = 0; i < fields.size(); ++i, ++cell) {
    const std::string_view text = fields[i];
    const uintptr_t begin = reinterpret_cast<uintptr_t>(text.data()) - reinterpret_cast<uintptr_t>(file.data());
    const bool in_file = begin <= file.size() && text.size() <= file.size() - begin;
    *cell = {in_file ? begin : table_.text_.size(), static_cast<uint32_t>(text.size()), places[i], Table::Kind::text,
             in_file};
    if (!in_file) table_.text_.append(text);
  }
}

Table TableBuilder::finish() {
  end_row();
  if (widths_.size() > 1) {
    const size_t width = table_.columns_.size();
    SpillVector<Table::Cell> even;
    const Table::Cell* from = table_.cells_.data();
    for (size_t i = 0; i < widths_.size(); ++i) {
      const auto [first, had] = widths_[i];
      const int64_t end = i + 1 < widths_.size() ? widths_[i + 1].first : rows();
      for (int64_t r = first; r < end; ++r, from += had) {
        even.append({from, had});
        even.resize(even.size() + width - had);
      }
    }
    table_.cells_ = std::move(even);
  }
  return std::move(table_);
}

}  // namespace amp
