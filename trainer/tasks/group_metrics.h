// The task's metrics of each group of samples (data/sample_groups.h).
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
  MetricValues values;  // those of the loss are NaN: it is known of batches, not of samples
};

class GroupMetrics {
 public:
  using Make = std::function<std::unique_ptr<TaskMetrics>()>;
  GroupMetrics(const SampleGroups& groups, Make make) : groups_(groups), make_(std::move(make)) {}

  // As TaskMetrics::add; outputs and label have as many rows for each sample.
  void add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t> samples);
  std::vector<GroupValues> values() const;  // those that had samples, in the order of their names

 private:
  struct Group {
    int64_t samples = 0;
    std::unique_ptr<TaskMetrics> metrics;
  };
  const SampleGroups& groups_;
  Make make_;
  std::map<int32_t, Group> found_;
};

// {"groups": {COLUMN: {NAME: {"samples": N, METRIC: X, ..}}}}, added to the object `details`, or to none.
std::string add_groups(const std::string& details, const std::string& column, const std::vector<GroupValues>& groups);

// Lines of a table: groups, samples, the first `told` metrics.
std::vector<std::string> group_table(const std::string& column, const std::vector<GroupValues>& groups, size_t told);

}  // namespace amp
