// Verb eval: prints the loss and metrics of a model on validation data, as one line of JSON.
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "run/evaluate/evaluate.h"
#include "run/prepare/objective.h"
#include "run/spec/spec.h"
#include "tools/cli/config_paths.h"
#include "tools/junit.h"
#include "tools/spec_of.h"
#include "tools/verbs.h"

namespace amp {

static int evaluate(const cli::Options& opts, const Console& console, Junit& junit) {
  cli::require_files_of_config(opts);
  RunSpec spec = spec_of(opts);
  if (spec.data.val.empty()) spec.data.val = opts.str("inputs");
  if (spec.data.val.empty())
    fail(Exit::usage, "E_USAGE", "eval needs data: --val FILE (text or tensors) or --inputs FILE");
  const Metrics m = evaluate_model(spec, console.log());
  const auto number = [](double v) { return std::isfinite(v) ? nlohmann::json(v) : nlohmann::json(nullptr); };
  nlohmann::json j = {{"loss", number(m.loss)}, {"samples", m.samples}};
  if (m.not_finite > 0) j["samples_not_finite"] = m.not_finite;
  for (const auto& [name, value] : m.values) j[name] = number(value);
  if (!m.details.empty()) j.update(nlohmann::json::parse(m.details));
  std::cout << j.dump() << '\n';
  if (const std::string& out = opts.str("out"); !out.empty()) {
    FileWriter file(out);
    file.write(j.dump(2) + "\n");
    file.commit();
  }
  for (const std::string& line : group_table(m.group_column, m.groups, m.brief)) console.log().info(line);
  junit.gates(gate_results(spec.evaluation.require, &m));
  check_gates(spec.evaluation.require, &m);
  return 0;
}

static int run_eval(const cli::Options& opts, const Console& console) {
  Junit junit(opts.str("junit"), "eval", console.log());
  return junit.record([&] { return evaluate(opts, console, junit); });
}

static const RegisterVerb eval_verb(cli::Verb::eval, run_eval);

}  // namespace amp
