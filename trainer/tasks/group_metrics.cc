// Splits the samples of each batch by group and adds them to the metrics of their group. The outputs must have the same
// number of rows for each sample.
#include "trainer/tasks/group_metrics.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"

namespace amp {

namespace {

// Returns the rows of the samples with the indices `places`. Throws E_GROUPS (Exit::usage) unless the tensor has the
// same number of rows for each of n samples.
HostTensor group_rows(const HostTensor& t, size_t n, const std::vector<size_t>& places) {
  if (!t) return t;
  const int64_t all = t.rank() > 0 ? t.dims()[0] : 0;
  if (all == 0 || all % static_cast<int64_t>(n) != 0)
    fail(Exit::usage, "E_GROUPS", "the model's outputs have no row for each sample: there are no metrics of groups",
         "leave `eval_group_by` out");
  Dims dims = t.dims();
  dims[0] = all / static_cast<int64_t>(n) * static_cast<int64_t>(places.size());
  HostTensor out = HostTensor::empty(t.dtype(), dims);
  const size_t size = static_cast<size_t>(t.bytes()) / n;
  for (size_t i = 0; i < places.size(); ++i)
    std::memcpy(static_cast<char*>(out.mutable_data()) + i * size,
                static_cast<const char*>(t.data()) + places[i] * size, size);
  return out;
}

}  // namespace

void GroupMetrics::add(const std::vector<HostTensor>& outputs, const HostTensor& label,
                       std::span<const int64_t> samples) {
  std::map<int32_t, std::vector<size_t>> places;
  for (size_t i = 0; i < samples.size(); ++i) places[groups_.of.at(static_cast<size_t>(samples[i]))].push_back(i);
  for (const auto& [group, at] : places) {
    Group& g = found_[group];
    if (!g.metrics) g.metrics = make_();
    std::vector<HostTensor> mine;
    std::vector<int64_t> ids;
    for (const HostTensor& o : outputs) mine.push_back(group_rows(o, samples.size(), at));
    for (const size_t i : at) ids.push_back(samples[i]);
    g.metrics->add(mine, group_rows(label, samples.size(), at), ids);
    g.samples += static_cast<int64_t>(at.size());
  }
}

std::vector<GroupValues> GroupMetrics::values() const {
  std::vector<GroupValues> out;
  for (const auto& [group, g] : found_)
    out.push_back({groups_.names.at(static_cast<size_t>(group)), g.samples,
                   g.metrics->values(std::numeric_limits<double>::quiet_NaN())});
  return out;
}

std::string add_groups(const std::string& details, const std::string& column, const std::vector<GroupValues>& groups) {
  nlohmann::json j = details.empty() ? nlohmann::json::object() : nlohmann::json::parse(details);
  nlohmann::json& by = j["groups"][column] = nlohmann::json::object();
  for (const GroupValues& g : groups) {
    nlohmann::json values = {{"samples", g.samples}};
    for (const auto& [name, value] : g.values)
      values[name] = std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
    by[g.name] = values;
  }
  return j.dump();
}

std::vector<std::string> group_table(const std::string& column, const std::vector<GroupValues>& groups, size_t shown) {
  if (groups.empty()) return {};
  std::vector<std::vector<std::string>> rows = {{column, "samples"}};
  for (const GroupValues& g : groups) {
    rows.push_back({printable(g.name), std::to_string(g.samples)});
    for (size_t i = 0; i < std::min(shown, g.values.size()); ++i) {
      if (rows.size() == 2) rows[0].push_back(g.values[i].first);
      char text[32];
      std::snprintf(text, sizeof text, "%.4f", g.values[i].second);
      rows.back().emplace_back(text);
    }
  }
  const auto width = [](const std::string& text) { return static_cast<size_t>(count_code_points(text)); };
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
  }
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::string& line = lines.emplace_back();
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string gap(widths[c] - width(row[c]), ' ');
      line += c == 0 ? row[c] + gap : "  " + gap + row[c];
    }
  }
  return lines;
}

}  // namespace amp
