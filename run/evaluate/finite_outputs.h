// Values of predictions that are no finite numbers, counted for a warning.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/host_tensor.h"
#include "base/log.h"

namespace amp {

class FiniteOutputs {
 public:
  // NaN and +infinity; -infinity is the logit of what a model masks.
  void see(const std::string& output, const HostTensor& values);
  // W_NOT_FINITE, where there were any.
  void warn(const Log& log) const;

 private:
  struct Count {
    int64_t bad = 0, all = 0;
  };
  std::map<std::string, Count> outputs_;
};

}  // namespace amp
