// Which batches are computed without their padding (unpadding), and what a graph without padding (ops/passes/padding.h)
// is fed with. Whether a batch is packed follows from its bucket's graph and from what the batch holds, from nothing
// else: a resumed run packs what an uninterrupted one packs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/host_tensor.h"
#include "ops/passes/padding.h"
#include "trainer/losses/losses.h"

namespace amp {

struct Packing {
  int64_t tokens = 0;  // of the graph: those that are there, and some padded places to make a rounder number
  Tensors inputs;      // padding.tokens, padding.positions, padding.samples, padding.offsets, padding.firsts
};

// mask (batch, length): 1 where a token is, else 0. Nothing where it holds anything else, where a sequence has none or
// does not begin at place 0 (padding on the left), or where less than one place in twenty would be saved.
std::optional<Packing> pack_tokens(const HostTensor& mask);

// Of a bucket: all batches of the same shapes. Nothing in it depends on what a batch holds.
struct PaddingPlan {
  std::shared_ptr<const Graph> graph;  // padded, before the precision plan; null unless padding can be removed
  PaddingMask mask;
  std::map<std::string, int64_t> ignored;   // labels that must hold this wherever padding is
  std::string seen_by;                      // the node that sees padding, if that is why it stays
  std::map<std::string, TokenForm> tokens;  // outputs that may hold anything at padded places
};
PaddingPlan plan_padding(std::shared_ptr<const Graph> graph, const Losses& losses, const Evaluator& evaluator);

// Nothing where this batch keeps its padding: pack_tokens says so, a label stands where padding is, or a mask that the
// plan is not sure of hides something else.
std::optional<Packing> packing_of(const PaddingPlan& plan, const Tensors& batch, const Evaluator& evaluator);

}  // namespace amp
