// Counts predicted values that are not finite, for a warning.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/host_tensor.h"
#include "base/log.h"

namespace amp {

class FiniteOutputs {
 public:
  // Counts NaN and +infinity. -infinity is allowed because it is the logit of a masked value.
  void observe(const std::string& output, const HostTensor& values);
  // Logs W_NOT_FINITE if any value was counted.
  void warn(const Log& log) const;

 private:
  struct Count {
    int64_t bad = 0, all = 0;
  };
  std::map<std::string, Count> outputs_;
};

}  // namespace amp
