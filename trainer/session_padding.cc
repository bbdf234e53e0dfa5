// Session and padding: the plan of a bucket, and the comparison of gradients with and without padding.
#include <algorithm>
#include <iostream>

#include "backend/interpreter.h"
#include "base/error.h"
#include "base/text.h"
#include "graph/passes.h"
#include "trainer/session.h"

namespace amp {

const PaddingPlan& Session::padding_plan(Mode mode, const Losses& loss, const std::vector<int>& outputs,
                                         const Tensors& batch) {
  const auto [at, fresh] =
      padding_.try_emplace(program_key(mode == Mode::train_accumulate ? Mode::train : mode, &loss, outputs, batch));
  PaddingPlan& plan = at->second;
  if (!fresh) return plan;
  plan = plan_padding(compose(mode, &loss, outputs, batch), loss, cpu_evaluator());
  if (!plan.seen_by.empty() && !said_why_) {
    said_why_ = true;
    std::cerr << "note: padding is computed too: " << plan.seen_by << " sees it\n";
  }
  return plan;
}

std::optional<Packing> Session::packing(Mode mode, const Losses& loss, const std::vector<int>& outputs,
                                        const Tensors& batch, bool compare) {
  if (!options_.remove_padding || guard_.off()) return std::nullopt;
  const PaddingPlan& plan = padding_plan(mode, loss, outputs, batch);
  std::optional<Packing> p = packing_of(plan, batch, cpu_evaluator());
  if (p && compare && mode != Mode::eval && guard_.due(state_)) {
    guard_.on_verdict(compare_padding(loss, few_rows(loss, batch, batch.at(plan.mask.input))));
    if (guard_.off()) return std::nullopt;
  }
  return p;
}

PaddingGuard::Verdict Session::compare_padding(const Losses& loss, const Tensors& batch) {
  const bool low = std::any_of(options_.compute.begin(), options_.compute.end(), is_low);
  try {
    const std::optional<Packing> p = packing_of(padding_plan(Mode::train, loss, {}, batch), batch, cpu_evaluator());
    if (!p) return PaddingGuard::Verdict::says_nothing;
    return PaddingGuard::compare(losses_and_gradients(loss, batch, nullptr), losses_and_gradients(loss, batch, &*p),
                                 low);
  } catch (const Error&) {  // a model of one batch size
    return PaddingGuard::Verdict::says_nothing;
  }
}

// Gradients of small parameters, biases and norms throughout the model, leave as outputs: nothing of the run's is
// written.
LossesAndGradients Session::losses_and_gradients(const Losses& loss, const Tensors& batch, const Packing* packing) {
  constexpr int64_t kLargest = 1 << 16;
  const std::shared_ptr<Graph> graph = build(Mode::train, &loss, {}, batch, packing);
  std::vector<std::string> names;
  for (const Graph::ParamGrad& g : graph->param_grads) {
    if (numel(graph->value(g.value).dims) > kLargest) continue;
    names.push_back(cat("gradient.", g.slot));
    graph->outputs.push_back({names.back(), g.value});
  }
  graph->param_grads.clear();
  ProgramOptions o = program_options(Mode::train);
  o.grads.clear();
  Program program(std::make_shared<Graph>(prune(*graph)), o);
  feed(program, batch);
  if (packing) feed(program, packing->inputs);
  LossWindow window(loss);
  window.count(batch);
  const std::vector<double> seeds = window.seeds(options_.low == DType::f16 && !options_.compute.empty() ? 1024 : 1);
  for (size_t i = 0; i < seeds.size(); ++i) {
    const std::string name = cat("seed.", i);
    if (program.has_input(name)) program.set_input(name, HostTensor::scalar<double>(seeds[i]));
  }
  program.run();
  LossesAndGradients result{read_terms(program), {}};
  for (const std::string& name : names) result.gradients.push_back(program.read(name));
  return result;
}

}  // namespace amp
