// A reference is recorded at one of two points: the base model before adapters and dropout are added, or the start of
// training after that. Adapters of a new run start at zero, or (pissa) hold a part of the weights. So without `adapter`
// the start of training equals the base.
#include "run/prepare/reference.h"

#include <optional>

#include "base/error.h"
#include "base/number_text.h"
#include "base/text.h"
#include "importer/surgery/reference.h"
#include "run/spec/spec.h"
#include "trainer/losses/loss.h"

namespace amp {

namespace {

bool wants_reference(const LossSpec& s) { return loss_rule(s.kind).own_reference; }

// Returns the values that the losses compare, in the order of the losses and their outputs.
std::vector<int> compared_values(const SourceGraph& g, const Losses& losses) {
  std::vector<int> out;
  for (const LossSpec& s : losses.parts) {
    for (const std::string& name : wants_reference(s) ? s.values() : std::vector<std::string>()) {
      const int v = g.find(name);
      check(v >= 0, "a loss of a value that the graph does not have");
      out.push_back(v);
    }
  }
  return out;
}

std::string reference_text(const RunSpec& spec, bool adapters, bool start, const ReferenceModel::Added& added) {
  std::string what = "this model before training";
  if (adapters) what = start ? "this model with the adapter that training starts from" : "this model without adapters";
  std::string text = cat("reference: ", what, ", ", with_thousands(added.nodes), " nodes in the same program");
  if (added.elements > 0) text += cat(", and a copy of ", with_thousands(added.elements), " weights");
  return cat(text, spec.model.adapter.empty() ? " (`teacher` names another)"
                   : start                    ? " (`reference` base: without it)"
                                              : " (`reference` start: with the one of `adapter`)");
}

}  // namespace

Trainable make_trainable_with_reference(const RunSpec& spec, Imported& model, const std::vector<int>& outputs,
                                        Losses& losses, const Log& log) {
  SourceGraph& g = model.graph;
  const bool asked = spec.objective.reference == "base", start = !spec.model.adapter.empty() && !asked;
  std::vector<int> compared = spec.objective.teacher.empty() ? compared_values(g, losses) : std::vector<int>();
  if (compared.empty()) return make_trainable(spec, model, outputs, log);
  std::optional<ReferenceModel> reference;
  if (!start) reference.emplace(g, std::move(compared));
  Trainable out = make_trainable(spec, model, outputs, log);
  if (asked && out.lora.empty())
    fail(Exit::usage, "E_TEACHER", "`reference` base is the model without adapters, and the run has none",
         "leave it out: the reference is the model before training");
  if (start) reference.emplace(g, compared_values(g, losses));
  const ReferenceModel::Added added = reference->add(g);
  log.info(reference_text(spec, !out.lora.empty(), start, added));
  size_t next = 0;
  for (LossSpec& s : losses.parts) {
    for (size_t i = 0; wants_reference(s) && i < s.values().size(); ++i)
      s.reference.push_back(g.value(added.outputs.at(next++)).name);
  }
  return out;
}

}  // namespace amp
