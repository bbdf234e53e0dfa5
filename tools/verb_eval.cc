// eval: loss and metrics of a model on validation data, as one JSON line.
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tools/cli/values.h"
#include "tools/common.h"
#include "tools/train_data.h"
#include "tools/verbs.h"
#include "trainer/trainer.h"

namespace amp {

int run_eval(const cli::Options& opts) {
  set_threads(opts);
  const Imported model = open_model(opts);
  const SourceGraph& g = model.graph;
  const std::string path = opts.has("val") ? opts.str("val") : opts.str("inputs");
  if (path.empty()) fail(Exit::usage, "E_USAGE", "eval needs data: --val FILE (text or tensors) or --inputs FILE");
  LossSpec loss = choose_loss(opts, g);
  if (is_text_file(path) && !opts.was_set("loss")) loss.kind = "cross_entropy";
  std::vector<std::string> classes;
  if (is_text_file(path)) {
    const std::string labels = model_metadata(*model.doc, "labels");
    if (labels.empty()) {
      fail(Exit::usage, "E_LABELS", "the model names no labels (metadata_props has no 'labels')", "evaluate a model that this program trained, or tensors");
    }
    try {
      classes = nlohmann::json::parse(labels).get<std::vector<std::string>>();
    } catch (const nlohmann::json::exception&) {
      fail(Exit::model, "E_LABELS", "metadata_props 'labels' is no JSON array of strings");
    }
  }
  std::vector<int> outputs;
  for (const std::string& name : loss.outputs) {
    if (g.find(name) >= 0) outputs.push_back(g.find(name));
  }
  require_known_operators(g, outputs);
  const int64_t batch_size = opts.integer("eval_batch_size");
  const auto data = open_dataset(opts, path, g, needed_inputs(g, outputs), classes, batch_size);
  Session session(g, session_options(opts, choose_plan(opts, g)));
  const Metrics m = evaluate(session, loss, *data, data->size() == 1 ? 1 : batch_size);
  nlohmann::json j = {{"loss", std::isfinite(m.loss) ? nlohmann::json(m.loss) : nlohmann::json(nullptr)}, {"samples", m.samples}};
  if (m.classification) {
    j["accuracy"] = m.accuracy;
    j["macro_f1"] = m.macro_f1;
  }
  std::cout << j.dump() << '\n';
  for (const std::string& text : opts.list("require")) {
    const cli::Gate gate = cli::parse_gate(text).value();
    if (!gate.met(m.value(gate.metric))) fail(Exit::gate, "E_GATE", cat("--require ", text, ": the value is ", m.value(gate.metric)));
  }
  return 0;
}

}  // namespace amp
