// Ranks candidates by the dot products of unit vectors. Products are sums in fp32 in a fixed order, one pair at a time,
// so the result does not depend on batches or threads.
#include "trainer/tasks/nearest.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace amp {

namespace {

void append_unit(std::vector<float>& to, const float* x, size_t width) {
  double sum = 0;
  for (size_t k = 0; k < width; ++k) sum += static_cast<double>(x[k]) * x[k];
  const double norm = std::max(std::sqrt(sum), 1e-8);
  for (size_t k = 0; k < width; ++k) to.push_back(static_cast<float>(x[k] / norm));
}

float dot(const float* a, const float* b, size_t width) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t k = 0; k < width; ++k) sum += a[k] * b[k];
  return sum;
}

}  // namespace

void Nearest::add(std::span<const float> rows, int64_t width, int64_t sides) {
  const size_t h = static_cast<size_t>(width), step = h * static_cast<size_t>(sides);
  check(sides >= 2 && width > 0 && rows.size() % step == 0 && (width_ == 0 || (width_ == width && sides_ == sides)),
        "Nearest::add: shapes");
  width_ = width;
  sides_ = sides;
  // Discards the ranks of the unfinished block, because its number of candidates grows.
  ranks_.resize(static_cast<size_t>(finished_));
  for (size_t at = 0; at < rows.size(); at += step) {
    append_unit(anchors_, &rows[at], h);
    append_unit(own_, &rows[at + h], h);
    for (size_t s = 2 * h; s < step; s += h) append_unit(others_, &rows[at + s], h);
    if (++items_ - finished_ == kBlock) finish_block();
  }
}

CandidateRank Nearest::rank_of(size_t item) const {
  const size_t h = static_cast<size_t>(width_), more = static_cast<size_t>(sides_ - 2);
  const float mine = dot(&anchors_[item * h], &own_[item * h], h);
  const bool known = std::isfinite(mine);
  CandidateRank out;
  if (!known) out.rank += static_cast<int64_t>(own_.size() / h);
  float best = 0;
  for (const std::vector<float>* side : {&own_, &others_}) {
    for (size_t j = 0; j * h < side->size(); ++j) {
      if (side == &own_ && j == item) continue;
      const float other = dot(&anchors_[item * h], side->data() + j * h, h);
      out.rank += known ? other >= mine : 0;
      if (out.nearest >= 0 && !(other > best)) continue;
      best = other;
      out.nearest = finished_ + static_cast<int64_t>(side == &own_ ? j : j / more);
      out.side = side == &own_ ? 1 : 2 + static_cast<int64_t>(j % more);
    }
  }
  return out;
}

const std::vector<CandidateRank>& Nearest::ranks() const {
  for (auto i = static_cast<int64_t>(ranks_.size()); i < items_; ++i)
    ranks_.push_back(rank_of(static_cast<size_t>(i - finished_)));
  return ranks_;
}

void Nearest::finish_block() {
  ranks();
  finished_ = items_;
  for (std::vector<float>* side : {&anchors_, &own_, &others_}) side->clear();
}

Nearest::Scores Nearest::scores() const {
  Scores sums;
  for (const CandidateRank& r : ranks()) {
    sums.accuracy += r.rank == 1;
    sums.mrr += 1 / static_cast<double>(r.rank);
  }
  const auto n = static_cast<double>(std::max<int64_t>(1, items_));
  return {sums.accuracy / n, sums.mrr / n};
}

}  // namespace amp
