// Takes settings from the finished run whose model is used: the model file and the tokenizer of its training.
#pragma once

#include "base/log.h"
#include "trainer/tasks/model_record.h"

namespace amp {

struct ModelSpec;
struct RunSpec;

// Replaces a folder in spec.model.model by its model file (run/model/model_file.h). If no tokenizer is requested and
// none is stored beside the file, uses the tokenizer in the run's record, if it still exists. If spec.model.model is
// the folder of a run that exported slots, and `adapter` is not given, it becomes the run's adapter.
RunSpec with_run(RunSpec spec, const Log& log);
RunSpec with_run_tokenizer(RunSpec spec, const Log& log);  // does only the tokenizer's part of with_run()

// Logs a note that the adapter beside a base with slots is not applied. model.model must be a file, not a folder.
void note_adapter_beside(const ModelSpec& model, const Log& log);

// Throws E_ADAPTER_PATH (Exit::usage) if `adapter` is stored beside the model, and the run exported its adapters as
// merge or keep, so that the model contains the adapter already.
void refuse_merged_adapter(const ModelSpec& model);

// Warns (W_TOKENIZER) if the model was trained with another tokenizer.
void check_tokenizer(const RunSpec& spec, const ModelRecord& record, const Log& log);

}  // namespace amp
