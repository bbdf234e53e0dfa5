// Which tokens of a batch are there: what a graph without padding (ops/padding.h) is fed with.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/host_tensor.h"
#include "trainer/losses.h"

namespace amp {

struct Packing {
  int64_t tokens = 0;  // of the graph: those that are there, and some padded places to make a rounder number
  Tensors inputs;      // padding.tokens, padding.positions, padding.samples, padding.offsets, padding.firsts
};

// mask (batch, length): 1 where a token is, else 0. Nothing where it holds anything else, where a sequence has none or
// does not begin at place 0 (padding on the left), or where less than one place in twenty would be saved.
std::optional<Packing> pack_tokens(const HostTensor& mask);

// The batch with other tokens of the same row at padded places, in every integer input shaped like the mask; `except`
// stay. Nothing where that changes nothing.
std::optional<Tensors> with_other_padding(const Tensors& batch, const std::string& mask,
                                          const std::vector<std::string>& except);

}  // namespace amp
