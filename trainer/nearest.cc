#include "trainer/nearest.h"

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
  check(sides >= 2 && width > 0 && rows.size() % step == 0 && (width_ == 0 || width_ == width), "Nearest::add: shapes");
  width_ = width;
  for (size_t at = 0; at < rows.size(); at += step) {
    append_unit(anchors_, &rows[at], h);
    append_unit(own_, &rows[at + h], h);
    for (size_t s = 2 * h; s < step; s += h) append_unit(others_, &rows[at + s], h);
    if (++items_ - finished_ == kBlock) finish_block();
  }
}

Nearest::Scores Nearest::block_sums() const {
  Scores sums;
  if (width_ == 0) return sums;
  const size_t h = static_cast<size_t>(width_);
  for (size_t i = 0; i < anchors_.size(); i += h) {
    const float mine = dot(&anchors_[i], &own_[i], h);
    int64_t ahead = std::isfinite(mine) ? 0 : static_cast<int64_t>(own_.size() / h);
    for (const std::vector<float>* side : {&own_, &others_}) {
      for (size_t j = 0; j < side->size(); j += h) {
        if (side == &own_ && j == i) continue;
        ahead += dot(&anchors_[i], side->data() + j, h) >= mine;
      }
    }
    sums.accuracy += ahead == 0;
    sums.mrr += 1 / static_cast<double>(1 + ahead);
  }
  return sums;
}

void Nearest::finish_block() {
  const Scores s = block_sums();
  sums_.accuracy += s.accuracy;
  sums_.mrr += s.mrr;
  finished_ = items_;
  for (std::vector<float>* side : {&anchors_, &own_, &others_}) side->clear();
}

Nearest::Scores Nearest::scores() const {
  if (items_ == 0) return {};
  const Scores open = block_sums();
  const double n = static_cast<double>(items_);
  return {(sums_.accuracy + open.accuracy) / n, (sums_.mrr + open.mrr) / n};
}

}  // namespace amp
