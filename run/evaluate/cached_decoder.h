// Computes the logits of the next token with a key/value cache: a prompt once, then one position per token.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "importer/surgery/decoder_caches.h"
#include "run/evaluate/next_token.h"

namespace amp {

// Returns the inputs that a whole text needs: a tensor without positions for each cache, and zeros for the lengths.
// Call it before feed_caches(), while the graph still has these inputs as constants.
Tensors empty_caches(const SourceGraph& graph, const DecoderCaches& caches);

class CachedDecoder {
 public:
  // whole: the same model without a cache, whose `more` are empty_caches(). caches: those that feed_caches() turned
  // into inputs. If `caches` has no parts, every call computes the whole text. low: the plan has 16-bit nodes. Both
  // references must outlive this object.
  CachedDecoder(Session& session, NextToken& whole, DecoderCaches caches, bool low, const Log& log);

  // Returns the logits (vocabulary) after the last id. If all ids but the last are those of the previous call, only the
  // last is computed. The first such result is compared with that of the whole text. If they differ, or if the graph
  // cannot be computed with a longer past, logs a note and uses no cache from then on.
  std::vector<float> logits(const std::vector<int32_t>& ids, int64_t most);

 private:
  std::string obstacle() const;  // why no cache can be used; empty: none is known
  std::vector<float> start(const std::vector<int32_t>& ids, int64_t most);
  std::vector<float> step(int32_t id, int64_t most);
  // Returns the inputs of one token after `used` positions.
  Tensors inputs_of(int32_t id) const;
  // Appends n positions, from position `from` of each present on.
  void append(const Tensors& out, int64_t from, int64_t n);
  void reserve(int64_t positions, int64_t most);
  bool agrees(const std::vector<float>& with, const std::vector<int32_t>& ids, int64_t most);
  void give_up(const std::string& why);

  Session& session_;
  NextToken& whole_;
  DecoderCaches caches_;
  bool low_;
  Log log_;
  DType type_;
  std::vector<int> outputs_;        // the logits, then the presents of all parts
  std::vector<HostTensor> stored_;  // tensors of type_, one per part, with capacity_ positions
  std::vector<int32_t> seen_;       // the ids whose positions are stored
  int64_t capacity_ = 0;
  bool compared_ = false;
};

}  // namespace amp
