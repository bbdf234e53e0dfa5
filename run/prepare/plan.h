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
  std::optional<PlanCost> cost;  // nullopt if the model does not accept the shapes that were tried
};

// Plans from the settings without data; the cost is that of a forward pass. Open dimensions of the file get batch_size
// rows, and 32 for all others.
PlannedModel plan_model(const RunSpec& spec, const Log& log = {});
std::string plan_json(const RunSpec& spec, const Log& log = {});  // plan_model() as JSON, without the cost
// Plans with data: measures on spec.data.train. The cost is that of a training micro-batch.
PlannedModel measure_model(const RunSpec& spec, const Log& log = {});

// format: text, json, dot or html.
std::string render(const PlannedModel& planned, const std::string& format);
// Compares two plans in JSON. a_name, b_name: names for the user.
std::string compare_plans(const std::string& a, const std::string& a_name, const std::string& b,
                          const std::string& b_name);

}  // namespace amp
