// Resolves `loss`, `output` and `teacher` against the imported graph: which losses, and which outputs each one reads. A
// loss on logits is moved before a trailing Softmax or Sigmoid, because that is numerically safer; the exported file
// keeps the activation. The parameters of losses are declared in trainer/losses/.
#include "run/prepare/losses.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "importer/discover/output_activation.h"
#include "run/settings/asked_objective.h"
#include "run/spec/model.h"
#include "run/spec/objective.h"
#include "trainer/losses/loss.h"
#include "trainer/losses/loss_text.h"

namespace amp {

namespace {

// Returns the names of the floating outputs. Outputs of unknown type count only if no output is known to be floating: a
// classifier's labels may be strings.
std::vector<std::string> floating_outputs(const SourceGraph& g) {
  std::vector<std::string> names, untyped;
  for (const int o : g.outputs) {
    const SourceValue& v = g.value(o);
    if (v.kind != SourceKind::temp) continue;
    if (!v.dtype_known) untyped.push_back(v.name);
    if (v.dtype_known && is_float(v.dtype)) names.push_back(v.name);
  }
  return names.empty() ? untyped : names;
}

// Returns the names in `output`, split at commas unless a value of the graph has the whole text as its name.
std::vector<std::string> named_outputs(const ModelSpec& model, const SourceGraph& g) {
  if (model.output.empty()) return {};
  const std::string& text = model.output;
  return g.find(text) >= 0 ? std::vector<std::string>{text} : split(text, ',');
}

std::string own_loss(const SourceGraph& g) {
  const std::vector<int> found = own_losses(g);
  if (found.size() == 1) return g.value(found[0]).name;
  std::vector<std::string> names;
  for (const int v : found) names.push_back(printable(g.value(v).name));
  fail(Exit::usage, "E_LOSS_IO",
       found.empty() ? std::string("the model has no output of one floating element: it computes no loss")
                     : cat("the model has several scalar outputs: ", join(names, ", ")),
       "name its loss with `output` NAME");
}

std::vector<std::string> default_outputs(const LossSpec& spec, const SourceGraph& g) {
  const LossRule& rule = loss_rule(spec.kind);
  if (rule.own_output) return {own_loss(g)};
  std::vector<std::string> names = floating_outputs(g);
  if (names.empty())
    fail(Exit::usage, "E_LOSS_IO", "the model has no floating output for the loss", "name one with `output` NAME");
  const auto has = [&](const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (!rule.default_outputs.empty()) {
    if (std::all_of(rule.default_outputs.begin(), rule.default_outputs.end(), has)) return rule.default_outputs;
    if (names.size() == rule.min_outputs) return names;
    fail(Exit::usage, "E_LOSS_IO", cat("the model has no outputs ", join(rule.default_outputs, " and ")),
         cat("name the ", rule.min_outputs, " with `output` A,B"));
  }
  return {has("logits") ? "logits" : names[0]};
}

// True if the loss can compute on the logits before this activation.
bool takes(const LossSpec& spec, const std::string& ending) {
  const LossRule& rule = loss_rule(spec.kind);
  return ending == "Sigmoid" ? rule.after_sigmoid : rule.after_softmax;
}

// Copies the setting `label_smoothing` to each loss that has this parameter and for which it is 0.
void smooth_labels(const ObjectiveSpec& objective, Losses& losses) {
  const double p = objective.label_smoothing;
  bool taken = p == 0;
  for (LossSpec& s : losses.parts) {
    if (p == 0 || !s.has("label_smoothing")) continue;
    taken = true;
    if (s.number("label_smoothing") == 0) s.set("label_smoothing", {p});
  }
  if (!taken)
    fail(Exit::usage, "E_LOSS",
         cat("`label_smoothing` ", p, ": the loss ", losses.parts.at(0).kind, " does not have it"),
         "leave it out, or train with `loss` cross_entropy");
}

// Refuses losses that need a teacher if there is none. references: losses that compare with the model before training
// need no teacher.
void require_teachers(const Losses& losses, bool references) {
  for (const LossSpec& s : losses.parts) {
    const LossRule& rule = loss_rule(s.kind);
    if (!rule.teacher || (references && rule.own_reference)) continue;
    fail(Exit::usage, "E_TEACHER", cat("the loss ", s.kind, " needs a teacher"),
         rule.own_reference ? "it compares with the model before training, which only train has; train reports this "
                              "loss for `val`"
                            : "add `teacher` FILE (train)");
  }
}

// Adds a distill loss for `teacher` unless the user named such a loss. With a teacher, kl without a label means
// distill.
void add_teacher(const ObjectiveSpec& objective, Losses& losses, bool references) {
  const bool teacher = !objective.teacher.empty();
  for (LossSpec& s : losses.parts) {
    if (teacher && s.kind == "kl" && s.label.empty()) s.kind = "distill";
  }
  if (!teacher) return require_teachers(losses, references);
  if (losses.wants_teacher()) return;
  const double w = objective.teacher_weight;
  for (LossSpec& s : losses.parts) s.weight *= 1 - w;
  LossSpec s;
  s.kind = "distill";
  s.weight = w;
  s.set("temperature", {objective.temperature});
  losses.parts.push_back(s);
}

// Sets the value that a gradient loss differentiates with respect to: the model's only floating input, unless the user
// names one.
void choose_input(LossSpec& s, const SourceGraph& g) {
  if (!loss_rule(s.kind).of_gradient) return;
  std::vector<std::string> inputs, names;
  for (const SourceValue& v : g.values) {
    if (v.kind == SourceKind::parameter || v.kind == SourceKind::constant) continue;
    names.push_back(v.name);
    if (v.kind == SourceKind::input && is_float(v.dtype)) inputs.push_back(v.name);
  }
  if (s.input.empty() && inputs.size() == 1) s.input = inputs[0];
  if (s.input.empty())
    fail(Exit::usage, "E_LOSS_IO",
         cat("the loss ", s.kind, " needs a value to differentiate with respect to, and the model has ", inputs.size(),
             " floating inputs", inputs.empty() ? "" : ": " + printable(join(inputs, ", "))),
         "name an input, or a value of the model: input=NAME");
  if (std::find(names.begin(), names.end(), s.input) != names.end()) return;
  const std::string near = nearest(s.input, names);
  fail(Exit::usage, "E_LOSS_IO", cat("the loss ", s.kind, ": the model has no value '", printable(s.input), "'"),
       near.empty() ? "floating inputs: " + join(inputs, ", ") : "did you mean '" + near + "'?");
}

// True if the loss may read a head's output: it has one output, and the model does not compute the loss itself.
bool headed(const LossSpec& s) {
  const LossRule& rule = loss_rule(s.kind);
  return !rule.own_output && rule.min_outputs == 1;
}

}  // namespace

Losses choose_losses(const ModelSpec& model, const ObjectiveSpec& objective, const SourceGraph& g,
                     const std::string& head, const std::string& automatic, bool references) {
  Losses losses = requested_losses(objective);
  const std::vector<std::string> named = named_outputs(model, g);
  const bool automatic_loss = losses.parts.empty();
  if (automatic_loss) {
    LossSpec s;
    const bool own = automatic.empty() && head.empty() && named.empty() && own_losses(g).size() == 1;
    if (own || !automatic.empty()) s.kind = own ? "model" : automatic;
    losses.parts.push_back(s);
  }
  add_teacher(objective, losses, references);
  for (LossSpec& s : losses.parts) {
    choose_input(s, g);
    if (s.outputs.empty())
      s.outputs = !named.empty()               ? named
                  : !head.empty() && headed(s) ? std::vector<std::string>{head}
                                               : default_outputs(s, g);
    for (const std::string& name : s.outputs) {
      if (g.find(name) >= 0) continue;
      std::vector<std::string> names;
      for (const int o : g.outputs) names.push_back(g.value(o).name);
      const std::string near = nearest(name, names);
      fail(Exit::usage, "E_LOSS_IO", cat("the model has no output '", printable(name), "'"),
           near.empty() ? "outputs: " + join(names, ", ") : "did you mean '" + near + "'?");
    }
  }
  if (automatic_loss && losses.parts[0].kind.rfind("cross_entropy", 0) == 0) {
    const int output = g.find(losses.parts[0].outputs[0]);
    const SourceValue& v = g.value(output);
    const auto end = output_activation(g, output);
    const bool one = v.rank_known && v.dims.size() == 2 && v.dims[1].value == 1 && automatic == "cross_entropy";
    if (one || (end && end->op == "Sigmoid")) losses.parts[0].kind = "bce_logits";
    if (losses.parts[0].kind == "cross_entropy" && ends_in_probabilities(g, output)) losses.parts[0].kind = "nll_probs";
  }
  smooth_labels(objective, losses);
  return losses;
}

std::vector<std::string> bypass_output_activations(const SourceGraph& g, Losses& losses) {
  std::vector<std::string> notes;
  for (LossSpec& s : losses.parts) {
    std::vector<std::string> reads, ops;
    for (const std::string& name : s.outputs) {
      const auto end = output_activation(g, g.find(name));
      if (!s.bypass || !end || !takes(s, end->op)) break;
      reads.push_back(g.value(end->logits).name);
      ops.push_back(end->op);
    }
    if (reads.size() != s.outputs.size()) continue;
    s.reads = reads;
    if (const std::string same = loss_rule(s.kind).on_logits; !same.empty()) s.kind = same;
    for (size_t i = 0; i < reads.size(); ++i) {
      notes.push_back(cat("the ", ops[i], " before '", printable(s.outputs[i]), "' is bypassed: ", s.kind,
                          " takes its logits '", printable(reads[i]), "'; the exported file keeps it"));
    }
  }
  return notes;
}

void log_losses(const Losses& losses, const std::vector<std::string>& notes, const Log& log) {
  for (const LossSpec& s : losses.parts) log.info(cat("loss: ", describe(s)));
  for (const std::string& n : notes) log.info(cat("loss: ", n));
}

}  // namespace amp
