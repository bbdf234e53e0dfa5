// Compiles a graph when its key is first used: finishes the graph, fuses it, selects recomputation and allocates the
// activations. Then refuse_large() checks their size, before the Program is first executed.

#include "trainer/compile/program_cache.h"

#include <chrono>
#include <cmath>

#include "backend/memory_phase.h"
#include "base/text.h"
#include "graph/limits.h"
#include "ops/passes/label_rows.h"
#include "trainer/compile/memory_budget.h"

namespace amp {

Bucket bucket_of(const Tensors& batch) {
  Bucket out;
  for (const auto& [name, t] : batch) out.emplace_back(name, t.dtype(), t.dims());
  return out;
}

std::string shapes_of(const Tensors& batch) {
  std::vector<std::string> words;
  for (const auto& [name, t] : batch) words.push_back(cat(printable(name), ' ', to_string(t.dims())));
  return join(words, ", ");
}

static const char* name_of(GraphForm form) {
  switch (form) {
    case GraphForm::train:
      return "training";
    case GraphForm::hessian:
      return "Hessian-vector product";
    case GraphForm::diagonal:
      return "Hessian's diagonal";
    case GraphForm::drawn:
      return "gradients on drawn labels";
    case GraphForm::cached_train:
      return "training with cached gradients";
    case GraphForm::cached_forward:
      return "forward pass for the gradient cache";
    case GraphForm::eval:
      return "evaluation";
    case GraphForm::eval_full:
      break;
  }
  return "evaluation in fp32";
}

// Fails if the activations exceed the limit for models from files. Called before the arena's pages are written.
static void refuse_large(const Program& p, const SourceGraph& g, const Tensors& batch) {
  std::map<std::string, Dims> shapes;
  for (const auto& [name, t] : batch) shapes[name] = t.dims();
  const int64_t limit = activation_limit(g, shapes);
  if (p.arena_bytes() > limit)
    refuse_bytes(cat("tensors that live at the same time have ", p.arena_bytes(), " bytes"), limit);
}

// True for forms whose activations can be recomputed.
static bool trains(GraphForm form) { return form == GraphForm::train || form == GraphForm::cached_train; }

ProgramOptions ProgramCache::options(GraphForm form, bool accumulate) {
  const bool train = differentiates(form);
  ProgramOptions o;
  o.device = &params_.device();
  o.arena = &programs_.arena();
  o.cache = &params_.copies();
  o.constants = &constants_.on_device();
  o.state = &state_;
  o.accumulate = accumulate;
  o.gradients_are_scratch = form == GraphForm::train && params_.device().traits().lends_gradients;
  const std::vector<Chunk>& chunks = params_.layout().chunks();
  for (size_t i = 0; i < chunks.size(); ++i) {
    const int slot = static_cast<int>(i);
    const auto staged = params_.staged().find(slot);
    o.params.push_back(train && staged != params_.staged().end() ? staged->second : params_.weight(slot));
    o.grads.push_back(!train || chunks[i].frozen  ? Tensor{}
                      : estimates_curvature(form) ? params_.curvature(slot)
                                                  : params_.gradient(slot));
  }
  return o;
}

int64_t host_bytes(const Graph& g) { return int64_t{680} * g.n_nodes(); }

int64_t program_bytes(const Graph& g) { return int64_t{990} * g.n_nodes(); }

int64_t ProgramCache::limit() const {
  if (limit_ > 0) return limit_;
  const int64_t wide = size_of(params_.type());
  const int64_t session =
      (params_.layout().size() + params_.layout().trained_size()) * wide + constants_.bytes() + activation_bytes();
  return params_.device().traits().host_memory ? std::max(int64_t{128} << 20, session / 8)
                                               : std::max(int64_t{256} << 20, session / 4);
}

std::shared_ptr<Graph> ProgramCache::build(const GraphRequest& r, const Kind& kind,
                                           const std::function<std::shared_ptr<Graph>()>& composed) {
  const Packing* packing = kind.packing;
  std::shared_ptr<Graph> graph = compiler_.finish(composed(), r);
  if (kind.fused) compiler_.fuse(*graph);
  if (packing && packing->chunk < packing->rows) *graph = order_chunks(*graph);
  if (r.form == GraphForm::cached_forward) compiler_.drop_backward(*graph, r);
  params_.reach(*graph);
  if (estimates_curvature(r.form)) {
    params_.need_curvature();
  } else if (differentiates(r.form)) {
    params_.need_grads();
  }
  const int64_t budget = compiler_.options().activation_budget;
  if (trains(r.form) && (budget > 0 || params_.device().traits().recomputes_freely)) {
    const ProgramOptions with = options(r.form, kind.accumulate);
    std::optional<RecomputeChoice> choice =
        budget > 0 ? recompute_within(*graph, with, budget) : recompute_freely(*graph, with);
    recomputed_ = choice ? std::move(choice->name) : "";
    if (choice) graph = std::make_shared<Graph>(std::move(choice->graph));
  }
  return graph;
}

BucketProgram& ProgramCache::get(const GraphRequest& r, const Kind& kind,
                                 const std::function<std::shared_ptr<Graph>()>& composed) {
  const Packing* packing = kind.packing;
  const Key key{GraphKey(r), kind.accumulate, kind.fused, packing ? packing->tokens : 0, packing ? packing->rows : 0};
  if (Entry* known = programs_.find(key)) return *known->program;
  const auto started = std::chrono::steady_clock::now();
  const std::shared_ptr<Graph> graph = build(r, kind, composed);
  const int64_t bytes = program_bytes(*graph);
  const auto make = [&] {
    Entry made{nullptr, constants_.share(*graph)};
    made.program = in_phase(cat("the activations (and 16-bit weights) of ", shapes_of(r.batch)), [&] {
      return std::make_unique<BucketProgram>(graph, options(r.form, kind.accumulate), r.batch, packing,
                                             params_.staged());
    });
    return made;
  };
  BucketProgram& made =
      *programs_.add(key, bytes, limit_for(bytes), make, [&](Entry& removed) { constants_.release(removed.constants); })
           .program;
  ++compiled_;
  const Program& program = made.program();
  refuse_large(program, compiler_.source(), r.batch);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - started;
  log_.detail(cat("compiled: ", name_of(r.form), " of ", shapes_of(r.batch),
                  packing && packing->tokens ? cat(" as ", packing->tokens, " tokens") : "",
                  packing && packing->rows ? cat(", ", packing->rows, " rows of the loss") : "", ", ", graph->n_nodes(),
                  " nodes, activations ", program.arena_bytes() >> 20, " MiB",
                  trains(r.form) && !recomputed_.empty() ? cat(" (", recomputed_, ")") : "", ", in ",
                  std::llround(took.count()), " ms"));
  return made;
}

}  // namespace amp
