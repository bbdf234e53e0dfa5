// Each launch builds a GraphRequest, lets PaddingRemoval decide on packing, gets the Program from ProgramCache, writes
// the batch to its inputs and runs it.

#include "trainer/compile/session.h"

#include "base/text.h"

namespace amp {

Session::Session(const SourceGraph& source, const SessionOptions& options)
    : source_(source),
      table_(source),
      arena_(source, table_, *options.device, options.float_type, options.decay_exclude, options.batchnorm_train),
      compiler_(source, table_, options, options.device->traits()),
      programs_(compiler_, arena_, state_, options.program_bytes, options.log),
      padding_(compiler_, programs_, state_, options.remove_padding, options.log),
      label_rows_([this](const GraphRequest& r, const Packing* packing) { return padding_.compose(r, packing); },
                  source, table_, options.skip_unlabeled, options.log) {
  state_.seed = options.seed;
}

BucketProgram& Session::ready(const GraphRequest& r, bool accumulate, const Packing* packing, bool fused) {
  BucketProgram& p = programs_.get(r, {accumulate, fused, packing}, [&] { return label_rows_.compose(r, packing); });
  p.feed(r.batch, packing);
  return p;
}

void Session::launch_micro_batch(const Losses& losses, const Tensors& batch, LossTerms& terms, bool accumulate,
                                 const Instrumentation* look) {
  const GraphRequest r{GraphForm::train, &losses, {}, batch};
  const bool fused = !look || look->fused;
  const std::optional<Packing> packing = label_rows_.choose(r, padding_.packing(r, fused));
  ready(r, accumulate, packing ? &*packing : nullptr, fused).launch(terms, look);
}

void Session::launch_hessian(const Losses& losses, const Tensors& batch, const std::vector<HostTensor>& direction,
                             LossTerms& terms, const Instrumentation* look) {
  launch_curvature(GraphForm::hessian, losses, batch, direction, terms, false, look);
}

void Session::launch_diagonal(const Losses& losses, const Tensors& batch, const std::vector<HostTensor>& direction,
                              LossTerms& terms, bool accumulate) {
  launch_curvature(GraphForm::diagonal, losses, batch, direction, terms, accumulate, nullptr);
}

void Session::launch_sampled_labels(const Losses& losses, const Tensors& batch, LossTerms& terms, bool accumulate) {
  launch_curvature(GraphForm::drawn, losses, batch, {}, terms, accumulate, nullptr);
}

void Session::launch_curvature(GraphForm form, const Losses& losses, const Tensors& batch,
                               const std::vector<HostTensor>& direction, LossTerms& terms, bool accumulate,
                               const Instrumentation* look) {
  BucketProgram& p = ready({form, &losses, {}, batch}, accumulate, nullptr, !look || look->fused);
  for (size_t slot = 0; slot < direction.size(); ++slot) {
    const Program::Input* in = p.program().find_input(direction_input(static_cast<int>(slot)));
    if (in) p.program().write(*in, direction[slot].cast(float_type()));
  }
  p.launch(terms, look);
}

const Program& Session::launch_forward(const Losses& losses, const Tensors& batch) {
  // PaddingGuard compares only graphs of GraphForm::train, so its comparison is requested here for such a graph.
  if (state_.samples_before == 0) padding_.packing({GraphForm::train, &losses, {}, batch}, true);
  const GraphRequest r{GraphForm::cached_forward, &losses, compiler_.loss_values(losses_across_rows(losses)), batch};
  const std::optional<Packing> packing = padding_.packing(r, false);
  BucketProgram& p = ready(r, false, packing ? &*packing : nullptr, true);
  p.run();
  return p.program();
}

void Session::launch_cached(const Losses& losses, const Tensors& batch, LossTerms& terms, bool accumulate,
                            const std::function<void(Program&)>& feed) {
  const GraphRequest r{GraphForm::cached_train, &losses, compiler_.loss_values(losses_across_rows(losses)), batch};
  const std::optional<Packing> packing = padding_.packing(r, false);
  BucketProgram& p = ready(r, accumulate, packing ? &*packing : nullptr, true);
  feed(p.program());
  p.launch(terms);
}

std::vector<double> Session::eval_micro_batch(const Losses& losses, const Tensors& batch, Tensors* outputs) {
  const GraphRequest r{GraphForm::eval, &losses, outputs ? compiler_.loss_values(losses) : std::vector<int>{}, batch};
  const auto run = [&](const GraphRequest& asked, const Packing* packing) {
    BucketProgram& p = ready(asked, false, packing, true);
    p.run();
    return LossesAndOutputs{p.sums(), read_outputs(p, asked.outputs)};
  };
  std::optional<Packing> packing = padding_.packing(r, false);
  if (packing && !padding_.agrees(r, run)) packing.reset();
  packing = label_rows_.choose(r, std::move(packing));
  LossesAndOutputs result = run(r, packing ? &*packing : nullptr);
  // If the packed result is not finite, the padded graph gives the result, because padding can affect which values are
  // NaN or infinite.
  if (packing && !result.finite()) result = run(r, nullptr);
  if (outputs) *outputs = std::move(result.outputs);
  return result.terms;
}

Tensors Session::forward(const std::vector<int>& outputs, const Tensors& batch, bool full_precision) {
  const GraphRequest r{full_precision ? GraphForm::eval_full : GraphForm::eval, nullptr, outputs, batch};
  BucketProgram& p = ready(r, false, nullptr, true);
  p.run();
  return read_outputs(p, outputs);
}

int64_t Session::prepare_forward(const std::vector<int>& outputs, const Tensors& batch, bool full_precision) {
  const GraphRequest r{full_precision ? GraphForm::eval_full : GraphForm::eval, nullptr, outputs, batch};
  const BucketProgram& p = ready(r, false, nullptr, true);
  int64_t bytes = 0;
  for (const int v : outputs) bytes += p.program().output(source_.values[static_cast<size_t>(v)].name).bytes();
  return bytes;
}

Tensors Session::read_outputs(const BucketProgram& p, const std::vector<int>& values) const {
  Tensors out;
  for (const int v : values) {
    const std::string& name = source_.values[static_cast<size_t>(v)].name;
    out[name] = p.program().read(name);
  }
  return out;
}

void Session::prepare(const Losses& losses, const Tensors& batch) {
  const GraphRequest r{GraphForm::train, &losses, {}, batch};
  const std::optional<Packing> rows = label_rows_.choose(r, std::nullopt);
  programs_.get(r, {.packing = rows ? &*rows : nullptr},
                [&] { return label_rows_.compose(r, rows ? &*rows : nullptr); });
  if (arena_.all_reached()) return;
  programs_.clear();  // Programs hold addresses that change; get() compiles them again
  arena_.freeze_unreached();
  arena_.need_grads();  // describe() needs the new address of the gradients
}

bool Session::packs(const Losses& losses, const Tensors& batch) {
  return padding_.packing({GraphForm::train, &losses, {}, batch}, false).has_value();
}

int64_t Session::label_rows(const Losses& losses, const Tensors& batch) {
  const GraphRequest r{GraphForm::train, &losses, {}, batch};
  const std::optional<Packing> packing = label_rows_.choose(r, padding_.packing(r, false));
  return packing ? packing->rows : 0;
}

std::shared_ptr<const Graph> Session::forward_graph(const std::vector<int>& outputs, const Tensors& batch) const {
  return compiler_.compile({GraphForm::eval, nullptr, outputs, batch});
}

std::shared_ptr<const Graph> Session::train_graph(const Losses& losses, const Tensors& batch) const {
  return compiler_.compile({GraphForm::train, &losses, {}, batch});
}

std::shared_ptr<const Graph> Session::labeled_graph(const Losses& losses, const Tensors& batch) {
  const GraphRequest r{GraphForm::train, &losses, {}, batch};
  const std::optional<Packing> rows = label_rows_.choose(r, std::nullopt);
  return std::make_shared<Graph>(order_chunks(*compiler_.finish(label_rows_.compose(r, rows ? &*rows : nullptr), r)));
}

static std::string mebibytes(int64_t bytes) {
  const int64_t tenths = (bytes * 10 + (1 << 19)) >> 20;
  return tenths < 1 ? "under 0.1 MiB" : cat(tenths / 10, '.', tenths % 10, " MiB");
}

std::string Session::memory_text() const {
  const int64_t wide = size_of(float_type());
  std::vector<std::string> parts;
  const auto part = [&](const char* what, int64_t bytes) {
    if (bytes > 0) parts.push_back(cat(what, " ", mebibytes(bytes)));
  };
  part("parameters", layout().size() * wide);
  part("gradients", arena_.grads() ? layout().trained_size() * wide : 0);
  part("16-bit copies", copies().bytes());
  part("activations", activation_bytes());
  return join(parts, ", ");
}

}  // namespace amp
