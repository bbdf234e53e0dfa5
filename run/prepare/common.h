// What several jobs share: opening a model, reading a tensors file, the precision plan, a Session's options.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "importer/read/import.h"
#include "precision/decide.h"
#include "run/spec/job.h"
#include "run/spec/spec.h"
#include "trainer/compile/session.h"

namespace amp {

Imported open_model(const RunSpec& spec, Job job, const Log& log);
Tensors read_batch(const std::string& path);  // .safetensors, .npz

// The plan that is asked for (use_fp16, use_bf16, amp_level, precision_plan, dtype); with everything in fp32 when none
// is.
PrecisionPlan choose_plan(const RunSpec& spec, Job job, const SourceGraph& graph, const Log& log);
// For showing and for mixed files: without a type asked for that of use_fp16, an all-fp32 plan helps nobody.
PrecisionPlan choose_low_plan(const RunSpec& spec, Job job, const SourceGraph& graph, const Log& log);
bool synchronises(const RunSpec& spec);  // batch statistics are those of several ranks (--sync_bn)
SessionOptions session_options(const RunSpec& spec, Job job, const PrecisionPlan& plan, const Log& log);

// Exit 4 listing every live node whose operator is unknown, with the parameters that it blocks.
void require_known_operators(const SourceGraph& graph, const std::vector<int>& outputs);

void set_threads(const RunSpec& spec);

}  // namespace amp
