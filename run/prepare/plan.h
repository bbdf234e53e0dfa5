// The precision plan of a model: what computes in which type and the rule behind each decision, shown, written and
// compared.
#pragma once

#include <optional>
#include <string>

#include "base/log.h"
#include "graph/source.h"
#include "precision/cost.h"
#include "precision/decide.h"
#include "run/prepare/prepare.h"

namespace amp {

struct PlannedModel {
  SourceGraph graph;
  PrecisionPlan plan;
  std::optional<PlanCost> cost;  // none when the model does not take the shapes that were tried
};

// By the settings alone; the cost is that of a forward pass. Dimensions that the file leaves open: batch_size rows, 32
// of all others.
PlannedModel plan_model(const RunSpec& spec, const Log& log = {});
std::string plan_json(const RunSpec& spec, const Log& log = {});  // the same, without the cost
// Measured on spec.train; the cost is that of a training micro-batch.
PlannedModel measure_model(const RunSpec& spec, const Log& log = {});

// format: text, json, dot or html.
std::string render(const PlannedModel& planned, const std::string& format);
// a, b: plans as JSON, with their names for people.
std::string compare_plans(const std::string& a, const std::string& a_name, const std::string& b,
                          const std::string& b_name);

}  // namespace amp
