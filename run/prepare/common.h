// Steps that several jobs share: opening a model, reading a file of tensors, choosing the precision plan, filling
// SessionOptions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "importer/read/import.h"
#include "precision/decide.h"
#include "run/spec/job.h"
#include "trainer/compile/session.h"

namespace amp {

struct DeviceSpec;
struct DistributionSpec;
struct ModelSpec;
struct PrecisionSpec;
struct RunSpec;

Imported open_model(const RunSpec& spec, Job job, const Log& log);
// Reads a .safetensors or .npz file, and adds the inputs of the graph that follow from it (run/data/derived_inputs.h).
Tensors read_batch(const std::string& path, const SourceGraph& graph, const Log& log);

// Returns the plan that the settings request (`use_fp16`, `use_bf16`, `amp_level`, `precision_plan`, `dtype`). If they
// request none, every node computes in fp32.
PrecisionPlan choose_plan(const PrecisionSpec& precision, Job job, const SourceGraph& graph, const Log& log);
// Does the same as choose_plan(), except that it returns the plan of `use_fp16` if no type is requested. Used to
// display plans and to write mixed-precision files, for which an all-fp32 plan is useless.
PrecisionPlan choose_low_plan(const PrecisionSpec& precision, Job job, const SourceGraph& graph, const Log& log);
// Returns true if batch statistics are computed over all ranks (`sync_bn`).
bool synchronizes(const DistributionSpec& distribution, const ModelSpec& model);
SessionOptions session_options(const RunSpec& spec, Job job, const PrecisionPlan& plan, const Log& log);

// Sets the number of threads: as given, or fewer with a note if a limit prevents their start.
void set_threads(const DeviceSpec& device, const Log& log);

}  // namespace amp
