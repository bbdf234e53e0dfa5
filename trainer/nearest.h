// Retrieval: is an anchor's own candidate the nearest by cosine, among those of the whole set?
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace amp {

// Keeps all embeddings (fp32) of up to 4,096 items; beyond that, items are compared in blocks of 4,096, in the order in
// which they were added.
class Nearest {
 public:
  static constexpr int64_t kBlock = 4096;

  // rows: (items * sides, width): anchor, its candidate, then candidates that are nobody's, item by item.
  void add(std::span<const float> rows, int64_t width, int64_t sides);

  struct Scores {
    double accuracy = 0, mrr = 0;  // mrr: mean of 1 / rank; equal cosines rank the own one behind
  };
  Scores scores() const;  // over all items added

 private:
  void finish_block();
  Scores block_sums() const;
  std::vector<float> anchors_, own_, others_;  // of the open block, of length 1
  int64_t width_ = 0, items_ = 0, finished_ = 0;
  Scores sums_;
};

}  // namespace amp
