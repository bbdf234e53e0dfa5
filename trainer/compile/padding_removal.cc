// Caches one PaddingPlan per compiled graph and runs the guard's comparisons. A comparison compiles two Programs, with
// and without padding, and runs them on a few rows of the batch. It writes no parameter, gradient or statistic of the
// run.
//
// A difference in 16 bits is compared again in fp32, which decides. A fixed tolerance cannot: where the loss is small,
// results consist of rounding errors. A cross-entropy near 0 is the sum of exp(z_j - z_label); fp16 rounds a logit z by
// up to |z| 2^-11, so two computations differ by up to 4 |z| 2^-11 of the loss and of its gradient, 12 % for |z| = 64.
// A squared error near 0 loses all digits. Besides, fp16 rounds the gradient of each token by up to 2^-25, however
// small it is, and a parameter's gradient adds the errors of all tokens. Which values padding reaches does not depend
// on the precision plan, and in fp32 all of these errors are 2^13 times smaller, below kTolerance (padding_guard.cc).

#include "trainer/compile/padding_removal.h"

#include <algorithm>

#include "backend/interpreter.h"
#include "base/error.h"
#include "base/text.h"
#include "graph/passes.h"
#include "trainer/compile/gradient_penalty.h"
#include "trainer/compile/host_terms.h"

namespace amp {

std::shared_ptr<const PaddingPlan> PaddingRemoval::plan(const GraphRequest& r) {
  const GraphKey key(r);
  if (const auto* known = plans_.find(key)) return *known;
  const auto plan = std::make_shared<const PaddingPlan>(plan_padding(compiler_.compose(r), *r.losses, cpu_evaluator()));
  if (!plan->seen_by.empty() && !said_why_) {
    said_why_ = true;
    log_.note(cat("padding is computed too: ", plan->seen_by, " depends on it"));
  }
  constexpr int64_t kOthers = 4 << 10;  // approximate bytes of the key, and of the plan without its graph
  const int64_t bytes = kOthers + (plan->graph ? host_bytes(*plan->graph) : 0);
  plans_.make_room(bytes, programs_.limit(), [](const auto&) {});
  plans_.add(key, plan, bytes);
  return plan;
}

std::optional<Packing> PaddingRemoval::packing(const GraphRequest& r, bool compare) {
  if (!enabled_ || guard_.off() || (r.losses && penalizes_gradients(*r.losses))) return std::nullopt;
  const std::shared_ptr<const PaddingPlan> plan = this->plan(r);
  std::optional<Packing> p = packing_of(*plan, r.batch, cpu_evaluator());
  if (p && compare && r.form == GraphForm::train && guard_.due(state_)) {
    if (guard_.on_verdict(this->compare(*r.losses, few_rows(*r.losses, r.batch, r.batch.at(plan->mask.input))))) {
      log_.warning(
          "W_PADDING: without padding the gradients are others: padding is computed from here on (`remove_padding` "
          "false does so from the start)");
      return std::nullopt;
    }
  }
  return p;
}

std::shared_ptr<Graph> PaddingRemoval::compose(const GraphRequest& r, const Packing* packing) {
  if (!packing) return compiler_.compose(r);
  const std::shared_ptr<const PaddingPlan> plan = this->plan(r);
  return std::make_shared<Graph>(
      remove_padding(*plan->graph, plan->mask, packing->tokens, plan->ignored, cpu_evaluator()).graph);
}

PaddingGuard::Verdict PaddingRemoval::compare(const Losses& losses, const Tensors& batch) {
  const GraphRequest r{GraphForm::train, &losses, {}, batch};
  try {
    const std::optional<Packing> p = packing_of(*plan(r), batch, cpu_evaluator());
    if (!p) return PaddingGuard::Verdict::says_nothing;
    const auto compared = [&](const GraphCompiler& compiler, bool low) {
      return PaddingGuard::compare(losses_and_gradients(compiler, r, nullptr), losses_and_gradients(compiler, r, &*p),
                                   low);
    };
    const PaddingGuard::Verdict verdict = compared(compiler_, low_precision());
    if (verdict != PaddingGuard::Verdict::different || !low_precision()) return verdict;
    return compared(compiler_.without_plan(), false);
  } catch (const Error&) {  // a model with a fixed batch size cannot run on fewer rows
    return PaddingGuard::Verdict::says_nothing;
  }
}

bool PaddingRemoval::low_precision() const {
  const std::vector<DType>& compute = compiler_.options().compute;
  return std::any_of(compute.begin(), compute.end(), is_low);
}

bool PaddingRemoval::agrees(const GraphRequest& r, const Run& run) {
  if (!guard_.due_evaluation() || !guard_.on_evaluation(compare(r, run))) return true;
  log_.warning(
      "W_PADDING: without padding losses or outputs are others: padding is computed from here on (`remove_padding` "
      "false does so from the start)");
  return false;
}

PaddingGuard::Verdict PaddingRemoval::compare(const GraphRequest& r, const Run& run) {
  const std::string mask = plan(r)->mask.input;
  const Tensors rows = few_rows(*r.losses, r.batch, r.batch.at(mask));
  const GraphRequest few{r.form, r.losses, r.outputs, rows};
  try {
    const std::shared_ptr<const PaddingPlan> plan = this->plan(few);
    const std::optional<Packing> p = packing_of(*plan, rows, cpu_evaluator());
    if (!p) return PaddingGuard::Verdict::says_nothing;
    const std::vector<int64_t> offsets = p->inputs.at("padding.offsets").to_ints();
    std::vector<int64_t> lengths;
    for (size_t b = 1; b < offsets.size(); ++b) lengths.push_back(offsets[b] - offsets[b - 1]);
    const auto compared = [&](const GraphRequest& asked, bool low) {
      return PaddingGuard::compare(run(asked, nullptr), run(asked, &*p), plan->tokens, lengths, low);
    };
    const PaddingGuard::Verdict verdict = compared(few, low_precision());
    if (verdict != PaddingGuard::Verdict::different || !low_precision()) return verdict;
    return compared({GraphForm::eval_full, r.losses, r.outputs, rows}, false);
  } catch (const Error&) {  // a model with a fixed batch size cannot run on fewer rows
    return PaddingGuard::Verdict::says_nothing;
  }
}

// Returns the losses and the gradients of small parameters (biases and norms throughout the model). The gradients are
// graph outputs, so the run's gradient arena is not written.
LossesAndGradients PaddingRemoval::losses_and_gradients(const GraphCompiler& compiler, const GraphRequest& r,
                                                        const Packing* packing) {
  constexpr int64_t kLargest = 1 << 16;
  const std::shared_ptr<Graph> graph = compiler.finish(compose(r, packing), r);
  std::vector<std::string> names;
  for (const Graph::ParamGrad& g : graph->param_grads) {
    if (numel(graph->value(g.value).dims) > kLargest) continue;
    names.push_back(cat("gradient.", g.slot));
    graph->outputs.push_back({names.back(), g.value});
  }
  graph->param_grads.clear();
  ProgramOptions o = programs_.options(r.form, false);
  o.grads.clear();
  BucketProgram program(std::make_shared<Graph>(prune(*graph)), o, r.batch, packing);
  program.feed(r.batch, packing);
  LossAccumulator window(*r.losses);
  window.count(r.batch);
  const GraphOptions& g = compiler.options();
  HostTerms terms(*o.device, window.seeds(g.low == DType::f16 && !g.compute.empty() ? 1024 : 1));
  program.launch(terms);
  LossesAndGradients result{terms.sums(), {}};
  for (const std::string& name : names) result.gradients.push_back(program.program().read(name));
  return result;
}

}  // namespace amp
