// Nearest: ranks candidates by cosine similarity to an anchor, for the metrics of retrieval. An item consists of an
// anchor, its own candidate (the right one) and optional additional candidates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace amp {

// The rank of an item's own candidate among all candidates of the item's block, by similarity to the item's anchor.
struct CandidateRank {
  int64_t rank = 1;  // 1: the own candidate is the nearest. Ties count against it; a cosine of NaN ranks last
  // The nearest of the other candidates. `nearest` is the index of the item that has this candidate, in the order of
  // adding. `side` is 1 for the own candidate of that item, and 2, 3, ... for its additional candidates.
  int64_t nearest = -1;  // -1: there is no other candidate
  int64_t side = 1;
};

// Keeps all embeddings (fp32) of up to 4,096 items. More items are divided into blocks of 4,096 in the order of adding,
// and each item is compared only with its block.
class Nearest {
 public:
  static constexpr int64_t kBlock = 4096;

  // Adds items. rows: (items * sides, width). The rows of an item are its anchor, its own candidate and additional
  // candidates.
  void add(std::span<const float> rows, int64_t width, int64_t sides);

  struct Scores {
    double accuracy = 0, mrr = 0;  // mrr: mean of 1 / rank
  };
  Scores scores() const;                            // means over all items that were added
  const std::vector<CandidateRank>& ranks() const;  // one per item added, in their order

 private:
  void finish_block();
  CandidateRank rank_of(size_t item) const;    // rank of an item of the unfinished block
  std::vector<float> anchors_, own_, others_;  // embeddings of the unfinished block, normalized to length 1
  int64_t width_ = 0, sides_ = 0, items_ = 0, finished_ = 0;
  // The ranks of finished blocks and, after a call of ranks(), of the unfinished block.
  mutable std::vector<CandidateRank> ranks_;
};

}  // namespace amp
