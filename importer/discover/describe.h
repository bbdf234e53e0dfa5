// Describes discovery's verdicts to the user: the table that `check` prints, JSON, flags and warnings.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"
#include "importer/discover/verdict.h"

namespace amp {

// Returns a table with one row per tensor: first the doubtful tensors, then parameters, then some of the constants with
// more than one element. The last row is a total. Example row: "encoder.layer.0.query.weight  [384,384]  147,456  yes
// 99 % weight: input 1 of MatMul '...'; evidence: named after a module (+4), ...".
std::string describe_tensors(const SourceGraph& g, const std::vector<Verdict>& verdicts = {});

// Both functions return one JSON object per line, the first for each parameter, the second for each floating-point
// tensor. The keys of an object are name, alias, dtype, dims, count, parameter, trainable, tied_to, tied_transposed,
// reason, confidence (null if no evidence was weighed), unsure, evidence [{text, weight}].
std::string describe_parameters_json(const SourceGraph& g, const std::vector<Verdict>& verdicts = {});
std::string describe_tensors_json(const SourceGraph& g, const std::vector<Verdict>& verdicts = {});

// Returns flags that reverse the unsure verdicts, ready for a command line: "--freeze a.b --trainable c". Tensors that
// a flag has already decided are left out. Returns at most `most` flags and stores the number of omitted flags in
// `left`. The result is empty if all verdicts are sure.
std::string flags_for_unsure(const SourceGraph& g, const std::vector<Verdict>& verdicts, size_t most, size_t& left);

// Returns a warning if less than half of the elements of the large floating-point tensors are trainable because of
// discovery, not of a flag: "only 480 of 42,000 elements ...; to train them: --trainable a --trainable b". Otherwise
// returns an empty string.
std::string warn_if_mostly_frozen(const SourceGraph& g, const std::vector<Verdict>& verdicts);

struct ParameterCount {
  int64_t tensors = 0, elements = 0;  // trainable parameters; a tied weight counts once
  int64_t frozen_tensors = 0, frozen_elements = 0;
};
ParameterCount count_parameters(const SourceGraph& g);

}  // namespace amp
