// Takes settings from the finished run whose model is used: the model file and the tokenizer of its training.
#pragma once

#include "base/log.h"
#include "trainer/tasks/model_record.h"

namespace amp {

struct RunSpec;

// Replaces a folder in spec.model.model by its model file (run/model/model_file.h). If no tokenizer is requested and
// none is stored beside the file, uses the tokenizer in the run's record, if it still exists.
RunSpec with_run(RunSpec spec, const Log& log);
RunSpec with_run_tokenizer(RunSpec spec, const Log& log);  // does only the tokenizer's part of with_run()

// Warns (W_TOKENIZER) if the model was trained with another tokenizer.
void check_tokenizer(const RunSpec& spec, const ModelRecord& record, const Log& log);

}  // namespace amp
