// The precision plan of a model: the type of each node and the rule that decided it. Plans are shown, written and
// compared.
#pragma once

#include <optional>
#include <string>

#include "base/log.h"
#include "graph/source.h"
#include "precision/cost.h"
#include "precision/decide.h"

namespace amp {

struct RunSpec;

struct PlannedModel {
  SourceGraph graph;
  PrecisionPlan plan;
  std::optional<PlanCost> cost;  // nullopt if the model does not accept the input shapes that plan_model() chose
};

// Returns the plan that the settings request, without data. The cost is that of a forward pass: open first dimensions
// of the inputs have size `batch_size`, other open dimensions have size 32.
PlannedModel plan_model(const RunSpec& spec, const Log& log = {});
std::string plan_json(const RunSpec& spec, const Log& log = {});  // plan_model() as JSON, without the cost
// Measures plans on spec.data.train and returns the best one. The cost is that of a training micro-batch.
PlannedModel measure_model(const RunSpec& spec, const Log& log = {});

// Returns the plan in a format: text, json, dot or html.
std::string render(const PlannedModel& planned, const std::string& format);
// Returns the differences of two plans in JSON as text. a_name, b_name: how the text names them.
std::string compare_plans(const std::string& a, const std::string& a_name, const std::string& b,
                          const std::string& b_name);

}  // namespace amp
