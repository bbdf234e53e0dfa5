#include "trainer/compile/gradient_penalty.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "graph/autodiff.h"
#include "graph/decompositions.h"
#include "graph/passes.h"
#include "trainer/compile/graph_names.h"
#include "trainer/losses/loss.h"

namespace amp {

namespace {

ValueId& output_named(Graph& graph, const std::string& name) {
  const auto at =
      std::find_if(graph.outputs.begin(), graph.outputs.end(), [&](const auto& o) { return o.name == name; });
  check(at != graph.outputs.end(), cat("the graph has no output ", name));
  return at->value;
}

void penalize(Graph& graph, const LossSpec& spec, size_t term, const Evaluator& evaluator) {
  ValueId& sum = output_named(graph, loss_output(term));
  const ValueId input = output_named(graph, penalized_output(term));
  Builder b(graph, evaluator);
  b.origin = Origin{-1, "loss"};
  Autodiff ad(b, {input});
  ad.seed(sum, b.expand(b.scalar(1, b.dtype(sum)), b.dims(sum)));
  ad.run();
  const ValueId gradient = ad.grad(input);
  if (!gradient)
    fail(Exit::usage, "E_LOSS_IO",
         cat("the loss ", spec.kind, ": '", printable(join(spec.outputs, ", ")), "' does not depend on '",
             printable(spec.input), "'"),
         "name a floating input of the model, or a value between it and the output: input=NAME");
  b.origin = Origin{-1, "loss"};
  sum = loss_rule(spec.kind).of_gradient(b, spec, gradient);
}

}  // namespace

bool penalizes_gradients(const Losses& losses) {
  return std::any_of(losses.parts.begin(), losses.parts.end(),
                     [](const LossSpec& s) { return loss_rule(s.kind).of_gradient; });
}

std::vector<std::string> penalized_values(const Losses& losses) {
  std::vector<std::string> out;
  for (const LossSpec& s : losses.parts) {
    if (loss_rule(s.kind).of_gradient) out.push_back(s.input);
  }
  return out;
}

Graph penalize_gradients(Graph graph, const Losses& losses, const Evaluator& evaluator) {
  graph = decompose_operators(std::move(graph), evaluator);
  size_t term = 0;
  for (const LossSpec& s : losses.parts) {
    const LossRule& rule = loss_rule(s.kind);
    if (rule.of_gradient) {
      penalize(graph, s, term, evaluator);
      std::erase_if(graph.outputs, [&](const auto& o) { return o.name == penalized_output(term); });
    }
    term += rule.weights.size();
  }
  return decompose_operators(prune(graph), evaluator);
}

}  // namespace amp
