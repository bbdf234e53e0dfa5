// plan: what computes in which type, and the rule behind each decision.
#include <iostream>

#include "base/file.h"
#include "precision/plan_io.h"
#include "tools/common.h"
#include "tools/verbs.h"

namespace amp {

int run_plan(const cli::Options& opts) {
  const Imported model = open_model(opts);
  // Without a type asked for, the plan of --use_fp16: explaining an all-fp32 plan helps nobody.
  const bool asked = opts.flag("use_fp16") || opts.flag("use_bf16") || opts.has("precision_plan");
  const PrecisionPlan plan = asked ? choose_plan(opts, model.graph) : decide(model.graph, load_op_list(opts.str("amp_level")), DType::f16);
  const std::string json = plan_to_json(model.graph, plan);
  if (opts.has("out")) {
    FileWriter file(opts.str("out"));
    file.write(json);
    file.commit();
  }
  std::cout << (opts.flag("json") ? json : explain_plan(model.graph, plan));
  return 0;
}

}  // namespace amp
