// Computes the task's metrics for each group of samples (data/sample_groups.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/sample_groups.h"
#include "trainer/tasks/task.h"

namespace amp {

struct GroupValues {
  std::string name;
  int64_t samples = 0;
  MetricValues values;  // metrics of the loss are NaN, because the loss is known per batch and not per sample
};

class GroupMetrics {
 public:
  using Make = std::function<std::unique_ptr<TaskMetrics>()>;
  GroupMetrics(const SampleGroups& groups, Make make) : groups_(groups), make_(std::move(make)) {}

  // As TaskMetrics::add(). outputs and label have the same number of rows for each sample.
  void add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t> samples);
  std::vector<GroupValues> values() const;  // groups that have samples in the data, in the order of their names

 private:
  struct Group {
    int64_t samples = 0;
    std::unique_ptr<TaskMetrics> metrics;
  };
  const SampleGroups& groups_;
  Make make_;
  std::map<int32_t, Group> found_;
};

// Returns the JSON object `details` (empty: a new one) with {"groups": {COLUMN: {NAME: {"samples": N, METRIC: X, ..}}}}
// added.
std::string add_groups(const std::string& details, const std::string& column, const std::vector<GroupValues>& groups);

// Formats a table, one line per group: the group, its number of samples and its first `shown` metrics.
std::vector<std::string> group_table(const std::string& column, const std::vector<GroupValues>& groups, size_t shown);

}  // namespace amp
