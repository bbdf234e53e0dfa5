// What a finished run tells those who use its model: where the file is, and the tokenizer that it was trained with.
#pragma once

#include "base/log.h"
#include "run/spec/spec.h"
#include "trainer/tasks/model_record.h"

namespace amp {

// spec.model may be a folder (run/model/model_file.h). Where no tokenizer was asked for and none is beside the file, the one
// that the run's record names is used, if it still exists.
RunSpec with_run(RunSpec spec, const Log& log);
RunSpec with_run_tokenizer(RunSpec spec, const Log& log);  // the tokenizer alone

// "N bytes of CRC-32C X" of the tokenizer in use; empty without one.
std::string tokenizer_sum(const RunSpec& spec);
// W_TOKENIZER when the model was trained with another tokenizer.
void check_tokenizer(const RunSpec& spec, const ModelRecord& record, const Log& log);

}  // namespace amp
