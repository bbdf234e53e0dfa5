// The table that `check` prints: each floating-point tensor, the verdict and the reasons.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"
#include "importer/discover/verdict.h"

namespace amp {

// One row per tensor: doubtful ones first, then parameters, then the first constants of more than one element; a total
// last. Example: "encoder.layer.0.query.weight  [384,384]  147,456  yes  99 %  weight: input 1 of MatMul '...';
// evidence: named after a module (+4), ...".
std::string describe_tensors(const SourceGraph& g, const std::vector<Verdict>& verdicts = {});

// One JSON object per line, for parameters or for all floating-point tensors: name, alias, dtype, dims, count,
// parameter, trainable, tied_to, tied_transposed, reason, confidence (null if no evidence was weighed), unsure,
// evidence [{text, weight}].
std::string describe_parameters_json(const SourceGraph& g, const std::vector<Verdict>& verdicts = {});
std::string describe_tensors_json(const SourceGraph& g, const std::vector<Verdict>& verdicts = {});

// Flags that reverse the unsure verdicts that no flag has decided, ready for a command line: "--freeze a.b --trainable
// c". At most `most` flags; `left` receives the number of omitted ones. Empty if all verdicts are sure.
std::string flags_for_unsure(const SourceGraph& g, const std::vector<Verdict>& verdicts, size_t most, size_t& left);

// A warning if discovery, and not a flag, leaves less than half of the elements of the large floating-point tensors
// trainable: "only 480 of 42,000 elements ...; to train them: --trainable a --trainable b". Otherwise empty.
std::string warn_if_mostly_frozen(const SourceGraph& g, const std::vector<Verdict>& verdicts);

struct ParameterCount {
  int64_t tensors = 0, elements = 0;  // trainable; a tied weight counts once
  int64_t frozen_tensors = 0, frozen_elements = 0;
};
ParameterCount count_parameters(const SourceGraph& g);

}  // namespace amp
