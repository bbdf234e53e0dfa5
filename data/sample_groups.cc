// Implements sample_groups.h: assigns samples to groups by a column's value or by their file. Grouped wraps a dataset
// and adds the groups; metrics of each group are computed by the trainer.
#include "data/sample_groups.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "data/dataset_wrapper.h"
#include "data/text_file.h"

namespace amp {

namespace {

constexpr size_t kMostGroups = 1000;

class Grouped final : public DatasetWrapper {
 public:
  Grouped(std::shared_ptr<const Dataset> data, std::shared_ptr<const SampleGroups> groups)
      : DatasetWrapper(std::move(data)), groups_(std::move(groups)) {}
  const SampleGroups* groups() const override { return groups_.get(); }
  std::shared_ptr<const Dataset> for_evaluation() const override {
    std::shared_ptr<const Dataset> data = data_->for_evaluation();
    return data ? std::make_shared<Grouped>(std::move(data), groups_) : nullptr;
  }

 private:
  std::shared_ptr<const SampleGroups> groups_;
};

std::vector<std::string> short_names(const std::vector<std::string>& files) {
  std::vector<std::string> out;
  for (const std::string& f : files) out.push_back(std::filesystem::path(without_gz(f)).stem().string());
  size_t common = out[0].size();
  for (const std::string& name : out) {
    const auto end = std::mismatch(out[0].begin(), out[0].end(), name.begin(), name.end()).first;
    common = std::min(common, static_cast<size_t>(end - out[0].begin()));
  }
  const size_t cut = common == 0 ? std::string::npos : out[0].find_last_of("._-", common - 1);
  if (cut == std::string::npos) return out;
  for (std::string& name : out) name.erase(0, std::min(cut + 1, name.size()));
  return out;
}

std::string value_of(const Table& table, int64_t row, size_t column) {
  if (!table.has(row, column)) return {};
  return std::string(table.is_json(row, column) ? table.json(row, column) : table.text(row, column));
}

// Returns the group name of each row.
std::vector<std::string> row_names(const Table& table, const std::string& column) {
  std::vector<std::string> out;
  if (column == "file" && !table.has_column(column)) {
    const std::vector<std::string> files = short_names(table.names());
    for (int64_t r = 0; r < table.rows(); ++r) out.push_back(files.at(static_cast<size_t>(table.file(r))));
    return out;
  }
  const size_t c = table.column(column, "`eval_group_by` file: by the file that a row is from");
  for (int64_t r = 0; r < table.rows(); ++r) out.push_back(value_of(table, r, c));
  return out;
}

}  // namespace

SampleGroups group_samples(const Table& table, const std::string& column, std::span<const int64_t> source_rows,
                           int64_t samples) {
  if (source_rows.empty() && samples != table.rows())
    fail(Exit::data, "E_DATA_GROUPS",
         cat(table.name(), ": ", samples, " samples of ", table.rows(), " rows: which row each is of is not known"),
         "leave `eval_group_by` out");
  const std::vector<std::string> rows = row_names(table, column);
  std::map<std::string, int32_t> ids;
  for (const std::string& name : rows) ids.emplace(name, 0);
  if (ids.size() > kMostGroups)
    fail(Exit::data, "E_DATA_GROUPS",
         cat(table.name(), ": column '", printable(column), "' has ", ids.size(), " different values; at most ",
             kMostGroups, " are groups"),
         "name a column of few values with `eval_group_by`");
  SampleGroups out{column, {}, {}};
  for (auto& [name, id] : ids) {
    id = static_cast<int32_t>(out.names.size());
    out.names.push_back(name);
  }
  for (int64_t s = 0; s < samples; ++s) {
    const int64_t row = source_rows.empty() ? s : source_rows[static_cast<size_t>(s)];
    out.of.push_back(ids.at(rows.at(static_cast<size_t>(row))));
  }
  return out;
}

std::unique_ptr<Dataset> make_grouped(std::shared_ptr<const Dataset> data, std::shared_ptr<const SampleGroups> groups) {
  return std::make_unique<Grouped>(std::move(data), std::move(groups));
}

}  // namespace amp
