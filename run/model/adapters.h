// Low-rank adapters of a model, by the settings `lora`, `adapter` and `lora_export`.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "importer/read/import.h"
#include "run/spec/job.h"

namespace amp {

struct RunSpec;
struct Trainable;

// Adds adapters for training if `lora` or `adapter` asks for them, with the values of `adapter`. Fills in the members
// of `out` that concern adapters, and adds messages to `lines`. Throws E_LORA and E_LORA_EXPORT (Exit::usage), and the
// errors of read_adapter() and FittedAdapter (importer/adapter/).
void add_adapters(const RunSpec& spec, Imported& model, Trainable& out, std::vector<std::string>& lines,
                  const Log& log);

// Applies an adapter to a model that is not trained. path: a value of `adapter`; empty: does nothing.
void apply_adapter(const std::string& path, SourceGraph& graph, const Log& log);

}  // namespace amp
