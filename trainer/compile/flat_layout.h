// FlatLayout: offsets of all parameters in one contiguous array of elements (a "span"), trainable parameters first.
// Gradients, moments and the EMA have spans with the layout of the trainable part. Finite check, norm, reduction and
// update are passes over a span.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/shape.h"

namespace amp {

struct Chunk {
  std::string name;  // the parameter's name in the model
  Dims dims;
  int64_t offset = 0;  // in elements from the start of the span; offset * 4 bytes is a multiple of 64
  int64_t numel = 0;
  std::optional<double> weight_decay;  // overrides the optimizer's
  double lr_factor = 1;                // multiplies the schedule's learning rate
  bool frozen = false;                 // not counted in the norm and not updated
  // These fields mean the same as in UpdateSpan (backend/update.h).
  bool elementwise = false;
  int clip_group = 0;
  double max_grad_norm = 0;
  int64_t from_step = 0;
};

enum class DecayExclude {
  bias_and_norm,  // rank <= 1: biases and normalization scales do not decay
  none,           // every parameter decays
};

class FlatLayout {
 public:
  static constexpr int64_t kAlign = 16;  // elements: 64 bytes of fp32, 128 of fp64, so both have the same offsets

  explicit FlatLayout(DecayExclude exclude = DecayExclude::bias_and_norm) : exclude_(exclude) {}

  // Appends a parameter and returns its chunk. The caller may edit weight_decay and lr_factor, and frozen before
  // arrange().
  Chunk& add(std::string name, Dims dims) {
    Chunk c;
    c.offset = size_;
    c.numel = numel(dims);
    if (exclude_ == DecayExclude::bias_and_norm && dims.size() <= 1) c.weight_decay = 0;
    c.name = std::move(name);
    c.dims = std::move(dims);
    size_ += padded(c);
    trained_ = size_;
    chunks_.push_back(std::move(c));
    return chunks_.back();
  }

  // Assigns the offsets: trainable chunks first, then frozen ones, both in the order of add().
  void arrange() {
    size_ = 0;
    for (const bool frozen : {false, true}) {
      for (Chunk& c : chunks_) {
        if (c.frozen != frozen) continue;
        c.offset = size_;
        size_ += padded(c);
      }
      if (!frozen) trained_ = size_;
    }
  }

  const std::vector<Chunk>& chunks() const { return chunks_; }
  std::vector<Chunk>& chunks() { return chunks_; }
  // Returns the number of elements of the parameters' span, including the padding after each chunk (kAlign).
  int64_t size() const { return size_; }
  // Returns the number of elements of the span's trainable part, including padding.
  int64_t trained_size() const { return trained_; }
  int64_t parameters() const {  // number of elements of all chunks, frozen ones included, without padding
    int64_t n = 0;
    for (const Chunk& c : chunks_) n += c.numel;
    return n;
  }

 private:
  static int64_t padded(const Chunk& c) { return (c.numel + kAlign - 1) / kAlign * kAlign; }

  DecayExclude exclude_;
  std::vector<Chunk> chunks_;
  int64_t size_ = 0, trained_ = 0;
};

}  // namespace amp
