// RunSpec: all settings of a run as plain data. The command line (tools/) fills it from flags; other programs assign
// the members and call the functions of run/run.h.
//
// A member has the name of its setting, which is the same on the command line, in JSON and in run.json. Each setting
// has a row in run/settings/rows/. Include only the header of a member's type, such as run/spec/data.h for DataSpec, if
// only that member is needed.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "run/spec/data.h"
#include "run/spec/device.h"
#include "run/spec/distribution.h"
#include "run/spec/evaluation.h"
#include "run/spec/model.h"
#include "run/spec/objective.h"
#include "run/spec/optimization.h"
#include "run/spec/output.h"
#include "run/spec/precision.h"
#include "run/spec/schedule.h"

namespace amp {

struct RunSpec {
  using Texts = std::vector<std::string>;

  ModelSpec model;
  ObjectiveSpec objective;
  DataSpec data;
  PrecisionSpec precision;
  OptimizationSpec optimization;
  ScheduleSpec schedule;
  EvaluationSpec evaluation;
  OutputSpec output;
  DistributionSpec distribution;
  DeviceSpec device;

  // The source of each setting, for run.json: {"lr", "command line"}. May be empty.
  std::map<std::string, std::string> sources;

  // Returns the number of samples of an evaluation batch.
  int64_t evaluation_rows() const {
    if (evaluation.eval_batch_size > 0) return evaluation.eval_batch_size;
    if (!data.text.in_tokens) return schedule.batch_size;
    const int64_t length = *data.text.max_seq_len;  // with in_tokens, batch_size counts tokens
    return length > 0 ? std::max<int64_t>(1, schedule.batch_size / length) : 8;
  }
};

}  // namespace amp
