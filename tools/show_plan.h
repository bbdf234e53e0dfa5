// A plan written as the flags ask: --format, --out, --json.
#pragma once

#include "precision/cost.h"
#include "precision/decide.h"
#include "tools/cli/options.h"

namespace amp {

// To --out, the table then on stdout unless --quiet; without --out to stdout. cost may be null.
void show_plan(const cli::Options& opts, const SourceGraph& graph, const PrecisionPlan& plan, const PlanCost* cost);

void write_plan_file(const cli::Options& opts, const std::string& text);  // to --out
std::string extension(const std::string& path);                           // "json" of "a/b.json"; may be empty

}  // namespace amp
