// Steps that several jobs share: importing the model, choosing its precision plan and filling SessionOptions. Each
// function reads the settings that its job uses; run/settings/rows/ lists the jobs of each setting.
#include "run/prepare/common.h"

#include <omp.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/fs.h"
#include "base/limits.h"
#include "base/npz.h"
#include "base/text.h"
#include "base/threads.h"
#include "importer/discover/describe.h"
#include "importer/surgery/edit.h"
#include "importer/surgery/inference_inputs.h"
#include "models/architecture.h"
#include "run/data/derived_inputs.h"
#include "run/model/adapters.h"
#include "run/model/decoder_folder.h"
#include "run/model/model_file.h"
#include "run/prepare/device.h"
#include "run/settings/settings.h"
#include "run/spec/spec.h"

namespace amp {

namespace {

Limits limits_of(const RunSpec& spec) {
  const DeviceSpec& device = spec.device;
  Limits l;
  l.graph_nodes = device.max_graph_nodes;
  l.activation_bytes = device.max_activation_bytes;
  l.constant_bytes = device.max_constant_bytes;
  l.in_memory_bytes = device.in_memory_max_size;
  l.image_pixels = spec.data.images.max_image_pixels;
  return l;
}

// Returns true for jobs that run batches through the unchanged model in the type of `dtype`.
bool computes(Job job) {
  return job == Job::evaluate || job == Job::predict || job == Job::gradients || job == Job::generate;
}

// Logs doubts about a model that is to be trained: few trainable parameters, or tensors whose role is uncertain.
void note_doubts(const Imported& m, const Log& log) {
  if (const std::string little = warn_if_mostly_frozen(m.graph, m.verdicts); !little.empty())
    log.warning(printable(little));
  size_t left = 0;
  const std::string flags = flags_for_unsure(m.graph, m.verdicts, 12, left);
  if (flags.empty()) return;
  log.note(cat("unsure whether these tensors are weights (`check` shows the evidence); to turn the verdict: ",
               printable(flags), left ? cat(" (and ", left, " more)") : std::string()));
}

// Fails if the model path is the name of an architecture (`create NAME`) and no such file exists.
void refuse_architecture(const std::string& model) {
  for (const Architecture* a : architectures()) {
    if (a->name != model || path_exists(model)) continue;
    fail(Exit::usage, "E_MODEL_OPEN",
         cat("there is no file '", model, "'; this is the name of an architecture, but a model file is needed"),
         cat("`create ", model, " --out ", model, ".onnx` makes a model with random weights"));
  }
}

}  // namespace

Imported open_model(const RunSpec& spec, Job job, const Log& log) {
  check_settings(spec, job);
  refuse_architecture(spec.model.model);
  set_limits(limits_of(spec));
  const bool steps = job == Job::train || job == Job::gradients;
  ImportOptions o;
  if (steps || job == Job::check || job == Job::plan) {
    o.tie_weights_auto = spec.model.tie_weights == "auto";
    o.split_merged = spec.model.tie_weights != "file";
    o.train_quantized = spec.model.train_quantized;
    o.straight_through = spec.model.straight_through;
    o.gradient_stops = job != Job::plan;
    o.freeze = spec.model.freeze;
    o.trainable = spec.model.trainable;
    o.batchnorm_train = steps && *spec.model.batchnorm == "train";
    o.freeze_layers = spec.model.freeze_layers;
    o.find_layers =
        job == Job::train && (spec.optimization.layer_decay != 1 || spec.optimization.gradual_unfreezing > 0);
  }
  const std::string file = model_file(spec.model.model, log);
  o.past = past_options(spec.model, file);
  o.past.generates = job == Job::generate;
  Imported m = import_model(file, o);
  if (job != Job::write) refuse_inference_inputs(m.graph, o.past);
  for (const std::string& note : m.notes) log.note(note);
  if (job == Job::train) note_doubts(m, log);
  if (job == Job::evaluate || job == Job::predict || job == Job::generate)
    apply_adapter(spec.model.adapter, m.graph, log);
  return m;
}

Tensors read_batch(const std::string& path, const SourceGraph& g, const Log& log) {
  Tensors b;
  for (NamedTensor& t : read_tensor_file(path)) b[t.name] = std::move(t.tensor);
  b.merge(derived_inputs(g, b, log));
  warn_left_padding(g, b, log);
  return b;
}

PrecisionPlan choose_plan(const PrecisionSpec& precision, Job job, const SourceGraph& g, const Log& log) {
  DType low = DType::f32;
  if (*precision.use_fp16) low = DType::f16;
  if (*precision.use_bf16) low = DType::bf16;
  if (computes(job)) {
    const DType asked = dtype_from_name(precision.dtype);
    if (is_low(asked)) low = asked;
  }
  if (low == DType::f32 && precision.precision_plan.empty()) return decide(g, preset("O0"), DType::f32);
  if (precision.precision_plan.empty() && *precision.amp_level == "auto") {
    fail(Exit::usage, "E_AMP_AUTO", "`amp_level` auto measures on training data, which this verb does not read",
         "write the plan with `plan MODEL --calibrate FILE --out plan.json` and give it as `precision_plan` plan.json");
  }
  const OpList list = load_op_list(!precision.precision_plan.empty() ? precision.precision_plan : *precision.amp_level);
  const bool type_asked = precision.use_fp16.asked() || precision.use_bf16.asked();
  if (low == DType::f32 && list.dtype && !type_asked) low = *list.dtype;
  if (low == DType::f32 && !list.dtype) {
    if (job == Job::plan) {
      low = DType::f16;
    } else {
      log.warning(
          cat(printable(list.name), " names no dtype and neither `use_fp16` nor `use_bf16` is given: all stays fp32"));
    }
  }
  PrecisionPlan plan = decide(g, list, low);
  for (const std::string& w : plan.warnings) log.warning(w);
  return plan;
}

PrecisionPlan choose_low_plan(const PrecisionSpec& precision, Job job, const SourceGraph& g, const Log& log) {
  const bool asked = *precision.use_fp16 || *precision.use_bf16 || !precision.precision_plan.empty() ||
                     (job == Job::plan && *precision.amp_level == "auto");
  return asked ? choose_plan(precision, job, g, log) : decide(g, load_op_list(*precision.amp_level), DType::f16);
}

bool synchronizes(const DistributionSpec& distribution, const ModelSpec& model) {
  return distribution.sync_bn && *model.batchnorm == "train" && distribution.ranks > 1;
}

SessionOptions session_options(const RunSpec& spec, Job job, const PrecisionPlan& plan, const Log& log) {
  SessionOptions o;
  if (computes(job) && spec.precision.dtype == "fp64") o.float_type = DType::f64;
  if (job == Job::train || computes(job))
    o.device = &choose_device(spec.device, spec.distribution, o.float_type == DType::f64, log);
  if (plan.any_low() && o.float_type == DType::f32) {
    o.low = plan.low;
    for (const Decision& d : plan.nodes) o.compute.push_back(dtype_of(d.compute));
  }
  if (job == Job::train || job == Job::gradients) o.batchnorm_train = *spec.model.batchnorm == "train";
  o.sync_batchnorm = job == Job::train && synchronizes(spec.distribution, spec.model);
  o.fusion = spec.device.fusion;
  o.log = log;
  // If batch statistics are synchronized over the ranks, padding and rows must not be removed: each rank would decide
  // by its own batches.
  o.remove_padding = spec.device.remove_padding && !o.sync_batchnorm;
  o.skip_unlabeled = spec.device.skip_unlabeled && !o.sync_batchnorm;
  o.batchnorm_as_written = job == Job::predict;
  if (job == Job::train) {
    o.decay_exclude = spec.optimization.decay_exclude == "none" ? DecayExclude::none : DecayExclude::bias_and_norm;
    o.seed = static_cast<uint64_t>(spec.device.seed);
  }
  return o;
}

void set_threads(const DeviceSpec& device, const Log& log) {
  constexpr int kOthers = 3;  // threads in addition to OpenMP's: they load data, serve the report and watch the ranks
  if (device.threads > 0) omp_set_num_threads(static_cast<int>(device.threads));
  const int wanted = omp_get_max_threads(), needed = wanted - 1 + kOthers, possible = startable_threads(needed);
  const int used = possible == needed ? wanted : std::max(1, possible - kOthers + 1);
  if (used == wanted) return;
  omp_set_num_threads(used);
  log.note(cat("a limit of processes or memory permits ", possible, " further threads: `threads` is ", used,
               " instead of ", wanted));
}

}  // namespace amp
