// Retrieval: is an anchor's own candidate the nearest by cosine, among those of the whole set?
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace amp {

// The rank of an item's own candidate among the candidates of its block.
struct CandidateRank {
  int64_t rank = 1;  // 1: the nearest one. Equal cosines and NaN rank the own candidate after the other
  // The nearest of the other candidates: its item, in the order of adding, and its side. 1 is the candidate of another
  // item; 2, 3 ... are additional candidates, which belong to no item.
  int64_t nearest = -1;  // -1: there is none
  int64_t side = 1;
};

// Keeps all embeddings (fp32) of up to 4,096 items; beyond that, items are compared in blocks of 4,096, in the order in
// which they were added.
class Nearest {
 public:
  static constexpr int64_t kBlock = 4096;

  // rows: (items * sides, width), item by item: the anchor, its candidate, then additional candidates.
  void add(std::span<const float> rows, int64_t width, int64_t sides);

  struct Scores {
    double accuracy = 0, mrr = 0;  // mrr: mean of 1 / rank
  };
  Scores scores() const;                            // over all items added
  const std::vector<CandidateRank>& ranks() const;  // of all items added, in their order

 private:
  void finish_block();
  CandidateRank rank_of(size_t item) const;    // of the open block's items
  std::vector<float> anchors_, own_, others_;  // of the open block, of length 1
  int64_t width_ = 0, sides_ = 0, items_ = 0, finished_ = 0;
  mutable std::vector<CandidateRank> ranks_;  // of finished blocks, and of the open one as far as they were asked for
};

}  // namespace amp
