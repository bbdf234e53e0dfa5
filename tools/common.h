// What several verbs share: opening a model under the flags, reading a tensors file, the precision plan.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "importer/import.h"
#include "precision/decide.h"
#include "tools/cli/options.h"
#include "trainer/session.h"

namespace amp {

Imported open_model(const cli::Options& opts);  // notes go to stderr
Tensors read_batch(const std::string& path);    // .safetensors, .npz

// The plan that the flags ask for (--use_fp16, --use_bf16, --amp_level, --precision_plan, --dtype); with everything in
// fp32 when none is asked for.
PrecisionPlan choose_plan(const cli::Options& opts, const SourceGraph& graph);
SessionOptions session_options(const cli::Options& opts, const PrecisionPlan& plan);

// Exit 4 listing every live node whose operator is unknown, with the parameters that it blocks.
void require_known_operators(const SourceGraph& graph, const std::vector<int>& outputs);

void set_threads(const cli::Options& opts);

}  // namespace amp
