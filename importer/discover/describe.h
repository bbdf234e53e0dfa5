// The table that `check` prints: every floating tensor with what was decided about it and why.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"
#include "importer/discover/verdict.h"

namespace amp {

// Every floating tensor with its verdict: those in doubt first, then parameters, then constants (the first ones of more
// than one element). "encoder.layer.0.query.weight  [384,384]  147,456  yes  99 %  weight: input 1 of MatMul '...';
// evidence: named after a module (+4), ..."; a total last.
std::string describe_tensors(const SourceGraph& g, const std::vector<Verdict>& verdicts = {});

// One JSON object a line: name, alias, dtype, dims, count, parameter, trainable, tied_to, tied_transposed, reason,
// confidence (null: not in question), unsure, evidence [{text, weight}]. Of parameters, or of all floating tensors.
std::string describe_parameters_json(const SourceGraph& g, const std::vector<Verdict>& verdicts = {});
std::string describe_tensors_json(const SourceGraph& g, const std::vector<Verdict>& verdicts = {});

// The tensors whose verdict is unsure and that no flag decided, with the flags that turn it, ready for a command line:
// "--freeze a.b --trainable c". At most `most`; `left` gets the number of those left out. Empty: sure of all.
std::string flags_of_doubt(const SourceGraph& g, const std::vector<Verdict>& verdicts, size_t most, size_t& left);

// Less than half of the elements of the large floating tensors train, by the discovery's verdict and not by a flag:
// "only 480 of 42,000 elements ... train; to train the largest of the others: --trainable a --trainable b". Else empty.
std::string little_trains(const SourceGraph& g, const std::vector<Verdict>& verdicts);

struct ParameterCount {
  int64_t tensors = 0, elements = 0;  // trainable; a tied weight counts once
  int64_t frozen_tensors = 0, frozen_elements = 0;
};
ParameterCount count_parameters(const SourceGraph& g);

}  // namespace amp
