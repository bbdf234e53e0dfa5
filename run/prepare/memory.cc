// Estimates a training run's memory from the compiled graph (trainer/compile/memory_estimate.h), before allocation. The
// estimate uses the longest micro-batch. Recomputation is chosen by lowering the budget for activations.
#include "run/prepare/memory.h"

#include <unistd.h>

#include <limits>
#include <optional>

#include "base/number_text.h"
#include "base/sysinfo.h"
#include "base/text.h"
#include "run/prepare/device.h"
#include "run/spec/device.h"
#include "trainer/compile/memory_estimate.h"

namespace amp {

namespace {

// Returns the micro-batch of `size` samples (tokens with in_tokens) that has the longest texts.
Tensors longest_batch(const Dataset& data, const TrainerConfig& config, SamplerOptions first, int64_t size) {
  first.batch_size = size;
  first.ranks = 1;
  first.rank = 0;
  first.order = Order::by_length;
  Sampler sampler = make_sampler(data, first);
  return to_tensors(load_window(data, sampler.next()).batches.at(0), config.objective.teacher);
}

// Returns whether a run may write a checkpoint while steps go on. The last checkpoint of a run is written without a
// copy.
bool saves_during_training(const TrainerConfig& c, const TrainData& data) {
  if (!c.saves || c.max_steps <= 1 || c.save_strategy == SaveStrategy::none) return false;
  const auto before_the_end = [&](int64_t every) { return every > 0 && every < c.max_steps; };
  if (before_the_end(c.save_steps) || (data.val && before_the_end(c.eval_steps))) return true;
  const int64_t step = c.sampler.batch_size * c.sampler.accumulation * c.sampler.ranks;
  const bool epochs = c.save_strategy != SaveStrategy::steps || data.val;
  return epochs && (c.sampler.in_tokens || before_the_end((data.train->size() + step - 1) / step));
}

// Returns the bytes while the longest validation batch is evaluated. The losses need up to as many bytes as the outputs
// that they read. These are copied for the metrics, twice where padding removal is checked (Session::eval_micro_batch).
int64_t evaluation_bytes(const MemoryEstimate& training, const SessionOptions& options, const SourceGraph& g,
                         const TrainerConfig& config, const TrainData& data) {
  std::vector<int> outputs;
  if (const LossSpec* measured = measured_loss(config.objective)) {
    for (const std::string& name : measured->values()) outputs.push_back(g.find(name));
  }
  const Tensors batch = longest_batch(*data.val, config, {}, config.eval_batch_size);
  const ForwardEstimate forward = estimate_forward(g, options, outputs, {batch}, false);
  const bool host = options.device->traits().host_memory;
  return training.total() - training.activations +
         std::max(training.activations, forward.activations + forward.outputs) + (host ? 2 * forward.outputs : 0);
}

// Returns a function that estimates the run's memory for another batch size.
std::function<MemoryEstimate(int64_t)> bill_of(const SourceGraph& g, const SessionOptions& options,
                                               const TrainerConfig& config, const TrainData& data) {
  return [&g, options, &config, &data](int64_t size) {
    const bool accumulate = config.sampler.accumulation > 1 || size < config.sampler.batch_size;
    return estimate_memory(
        g, options, config.optimizer, config.objective.losses, longest_batch(*data.train, config, config.sampler, size),
        accumulate, [&](const Graph& graph) { return library_bytes(*options.device, graph); }, config.groups,
        config.gradient_cache ? config.sampler.accumulation * config.sampler.ranks : 0);
  };
}

}  // namespace

namespace {
// Returns the free memory on the CPU if a limit below the machine's memory applies, else nullopt. Such limits are
// checked because a control group ends the process without a message, and an address space limit fails at an arbitrary
// allocation.
std::optional<int64_t> limited_room() {
  const int64_t machine = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  if (memory_limit_bytes() >= machine) return std::nullopt;
  return available_memory_bytes();
}
}  // namespace

std::optional<int64_t> keep_budget(SessionOptions& options, const DeviceSpec& device, const SourceGraph& g,
                                   const TrainerConfig& config, const TrainData& data) {
  if (device.gradient_checkpointing) options.activation_budget = 1;
  const std::optional<int64_t> bytes = parse_integer(device.memory_budget);
  if (!bytes) return std::nullopt;
  SessionOptions free = options;
  free.activation_budget = 0;
  const MemoryEstimate whole = bill_of(g, free, config, data)(config.sampler.batch_size);
  if (!device.gradient_checkpointing)
    options.activation_budget = std::max<int64_t>(1, *bytes - (whole.total() - whole.activations));
  if (whole.total() <= *bytes) return *bytes - whole.total();
  const auto measure = bill_of(g, options, config, data);
  const MemoryEstimate least = measure(config.sampler.batch_size);
  if (least.total() <= *bytes) return *bytes - least.total();
  fail(Exit::memory, "E_OOM",
       cat("`memory_budget` of ", with_thousands(*bytes), " B: with all recomputed that can be, training takes ",
           with_thousands(least.total()), " B: ", least.text()),
       what_fits(*bytes, config.sampler.batch_size, config.sampler.accumulation, measure));
}

namespace {
// Lists the levels of recomputation that need less than `usual` bytes, and their total bytes, down to the level after
// which no memory is saved.
std::vector<std::pair<std::string, int64_t>> choices_of(SessionOptions options, const SourceGraph& g,
                                                        const TrainerConfig& config, const TrainData& data,
                                                        int64_t usual) {
  std::vector<std::pair<std::string, int64_t>> out;
  options.activation_budget = std::numeric_limits<int64_t>::max();
  for (int64_t last = options.activation_budget;;) {
    const MemoryEstimate e = bill_of(g, options, config, data)(config.sampler.batch_size);
    if (e.total() >= last) return out;
    last = e.total();
    if (!out.empty() && out.back().first == e.recomputed) out.pop_back();
    if (last < usual) out.emplace_back(e.recomputed, last);
    options.activation_budget = e.activations - 1;
  }
}
}  // namespace

MemoryBill memory_bill(const SessionOptions& options, const SourceGraph& g, const TrainerConfig& config,
                       const TrainData& data) {
  MemoryBill out;
  out.training = bill_of(g, options, config, data)(config.sampler.batch_size);
  out.device = options.device->description();
  // a checkpoint holds the weights that train, which have as many bytes as their gradients
  if (options.device->traits().host_memory && saves_during_training(config, data))
    out.checkpoint_copy = out.training.gradients + out.training.moments;
  if (data.val) out.evaluation = evaluation_bytes(out.training, options, g, config, data);
  out.choices = choices_of(options, g, config, data, out.training.total());
  if (const std::optional<PluginMemory> memory = memory_of(*options.device)) {
    out.device_memory = memory;
  } else {
    out.room = limited_room();
  }
  return out;
}

void require_room(const SessionOptions& options, const SourceGraph& g, const TrainerConfig& config,
                  const TrainData& data) {
  const std::optional<PluginMemory> memory = memory_of(*options.device);
  const std::optional<int64_t> room = memory ? memory->free : limited_room();
  if (!room) return;
  const auto measure = bill_of(g, options, config, data);
  require_memory(measure(config.sampler.batch_size), *room, config.sampler.batch_size, config.sampler.accumulation,
                 measure);
}

void fail_for_memory(const Error& e, const SourceGraph& g, const SessionOptions& options, const TrainerConfig& config,
                     const TrainData& data) {
  const std::optional<PluginMemory> memory = memory_of(*options.device);
  if (e.id() != "E_OOM" || !memory) throw e;
  const auto measure = bill_of(g, options, config, data);
  const MemoryEstimate bill = measure(config.sampler.batch_size);
  fail(e.exit(), e.id(), cat(e.fact(), ". ", bill.text(), ". Largest tensors: ", join(bill.largest, "; ")),
       what_fits(memory->free + options.device->memory_in_use(), config.sampler.batch_size, config.sampler.accumulation,
                 measure));
}

}  // namespace amp
