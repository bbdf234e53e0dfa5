// Verb predict: writes a model's outputs for a batch of tensors; or labels, numbers, answers and the like for the rows
// of a text file.
#include <iostream>
#include <nlohmann/json.hpp>

#include "run/evaluate/predict.h"
#include "tools/spec_of.h"
#include "tools/verbs.h"

namespace amp {

static int run_predict(const cli::Options& opts, const Console& console) {
  const std::string out = opts.str("out");
  const PredictReport report = predict(spec_of(opts), opts.str("inputs"), out, console.log());
  const nlohmann::ordered_json line =
      report.task.empty() ? nlohmann::ordered_json{{"outputs", report.outputs}, {"out", out}}
                          : nlohmann::ordered_json{{"rows", report.rows}, {"task", report.task}, {"out", out}};
  std::cout << line.dump() << '\n';
  return 0;
}

static const RegisterVerb predict_verb(cli::Verb::predict, run_predict);

}  // namespace amp
