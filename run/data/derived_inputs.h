// Inputs of language models that follow from others: an attention mask without padding, and positions.
#pragma once

#include <map>
#include <string>

#include "base/host_tensor.h"
#include "base/log.h"
#include "graph/source.h"

namespace amp {

// Returns the inputs of the graph that `fed` lacks and that follow from tensors in it, by name:
// * the attention mask (batch, length): all 1, of the shape of the token ids.
// * the positions (batch, length): those of the tokens that the mask does not hide, 0, 1, ... in each row, and 1 for
//   hidden tokens, as in transformers' generate().
// fed: the tensors of a file by name, which share memory with it. Logs what was made.
std::map<std::string, HostTensor> derived_inputs(const SourceGraph& graph, const std::map<std::string, HostTensor>& fed,
                                                 const Log& log);

// Warns if the attention mask in `fed` hides the first tokens of a row and the model contains GroupQueryAttention. That
// operator reads only the number of visible tokens, and takes the first tokens for the visible ones.
void warn_left_padding(const SourceGraph& graph, const std::map<std::string, HostTensor>& fed, const Log& log);

}  // namespace amp
