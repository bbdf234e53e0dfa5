// Runs one step on a MeasuringDevice, which counts allocations and executes no kernels. The estimate therefore follows
// the same code as a training run. The optimizer's moments are computed from the layout.

#include "trainer/compile/memory_estimate.h"

#include "backend/measuring_device.h"
#include "base/error.h"
#include "base/text.h"
#include "trainer/compile/flat_views.h"
#include "trainer/compile/host_terms.h"
#include "trainer/loop/gradient_cache.h"
#include "trainer/loop/micro_batches.h"

namespace amp {

std::string MemoryEstimate::text() const {
  return cat("parameters ", with_thousands(parameters), " B, gradients ", with_thousands(gradients), " B, moments ",
             with_thousands(moments), " B, 16-bit copies and constants ", with_thousands(copies), " B, activations ",
             with_thousands(activations), " B",
             libraries > 0 ? cat(", libraries' workspace up to ", with_thousands(libraries), " B") : std::string(),
             "; ", with_thousands(total()), " B in all");
}

std::string MemoryEstimate::short_of(int64_t free) const {
  const std::pair<std::string, int64_t> phases[] = {
      {"the weights", parameters},
      {"the gradients", gradients},
      {cat("the activations (and 16-bit weights) of ", batch), activations + copies},
      {"the optimizer's moments", moments},
      {"the libraries' workspace", libraries}};
  for (const auto& [name, bytes] : phases) {
    if (bytes > free) return name;
    free -= bytes;
  }
  return "";
}

MemoryEstimate estimate_memory(const SourceGraph& source, const SessionOptions& options, const OptimizerConfig& c,
                               const Losses& losses, const Tensors& batch, bool accumulate,
                               const std::function<int64_t(const Graph&)>& libraries,
                               const std::function<void(FlatLayout&)>& groups, int64_t cached) {
  MeasuringDevice device(*options.device);
  SessionOptions o = options;
  o.device = &device;
  // Progress is not logged here, because the run itself logs it once, and several estimates may be made.
  o.log = Log([log = options.log](Level level, const std::string& text) {
    if (level != Level::info) log.say(level, text);
  });
  Session session(source, o);
  if (groups) groups(session.layout());
  session.prepare(losses, batch);  // may free the compiled Programs, which the launches below then compile again
  const std::vector<double> seeds = LossAccumulator(losses).seeds(1);
  if (c.needs_hessian_diagonal()) {
    HostTerms terms(device, seeds);
    if (c.samples_labels())
      session.launch_sampled_labels(losses, batch, terms, accumulate);
    else
      session.launch_diagonal(losses, batch, {}, terms, accumulate);
  }
  int64_t together = 0;
  if (cached > 1) {
    const std::vector<Tensors> batches(static_cast<size_t>(cached), batch);
    const int64_t rows = batch_rows(losses, batch);
    HostTerms terms(device, seeds);
    GradientCache cache(session, losses);
    cache.launch(batches, rows_before(std::vector<int64_t>(batches.size(), rows)), rows * cached, terms);
    together = cache.bytes();
  } else {
    run_micro_batch(session, losses, batch, seeds, accumulate);
  }
  const int64_t wide = size_of(o.float_type);
  const FlatLayout& layout = session.layout();
  MemoryEstimate b;
  b.parameters = layout.size() * wide;
  b.gradients = layout.trained_size() * wide;
  b.activations = session.activation_bytes() + together;
  b.recomputed = session.recomputed();
  b.copies = device.memory_in_use() - b.parameters - b.gradients - b.activations;
  if (c.needs_hessian_diagonal()) b.copies -= layout.trained_size() * wide;  // the diagonal is counted as moments
  b.moments = c.state_bytes(update_spans(layout), layout.trained_size());
  b.batch = shapes_of(batch);
  const std::shared_ptr<const Graph> graph = session.labeled_graph(losses, batch);
  if (libraries) b.libraries = libraries(*graph);
  b.largest = largest_tensors(*graph, 3, !device.traits().reads_deferred);
  return b;
}

ForwardEstimate estimate_forward(const SourceGraph& source, const SessionOptions& options,
                                 const std::vector<int>& outputs, const std::vector<Tensors>& batches,
                                 bool full_precision) {
  MeasuringDevice device(*options.device);
  SessionOptions o = options;
  o.device = &device;
  o.log = Log();
  Session session(source, o);
  ForwardEstimate e;
  for (const Tensors& batch : batches)
    e.outputs = std::max(e.outputs, session.prepare_forward(outputs, batch, full_precision));
  e.activations = session.activation_bytes();
  e.weights = device.memory_in_use() - e.activations;
  return e;
}

std::string what_fits(int64_t free, int64_t batch_size, int64_t accumulation,
                      const std::function<MemoryEstimate(int64_t)>& measure) {
  for (int64_t b = batch_size / 2; b >= 1; b /= 2) {
    const int64_t needs = measure(b).total();
    if (needs > free) continue;
    const int64_t steps = (batch_size * accumulation + b - 1) / b;
    return cat("`batch_size` ", b, " `gradient_accumulation_steps` ", steps, " would fit: ", with_thousands(needs),
               " B");
  }
  return "no batch size fits: freeze layers, use `use_fp16` or `use_bf16`, a smaller `max_seq_len`, or a device with "
         "more "
         "memory";
}

void require_memory(const MemoryEstimate& bill, int64_t free, int64_t batch_size, int64_t accumulation,
                    const std::function<MemoryEstimate(int64_t)>& measure) {
  if (bill.total() <= free) return;
  fail(Exit::memory, "E_OOM",
       cat("training with `batch_size` ", batch_size, " needs ", with_thousands(bill.total()), " B of memory, ",
           with_thousands(free), " B are free: there would be no room for ", bill.short_of(free), ". ", bill.text(),
           ". Largest tensors: ", join(bill.largest, "; ")),
       what_fits(free, batch_size, accumulation, measure));
}

}  // namespace amp
