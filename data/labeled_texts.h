// Tokenized texts with labels, concatenated in arrays that may be larger than memory (base/spill.h).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/spill.h"
#include "data/tokenizer.h"

namespace amp {

// A tokenized text. It has one label per token id (LabelForm::tokens, ids), or two labels (LabelForm::spans).
struct LabeledText {
  Encoding encoding;
  std::vector<int64_t> labels;
  int64_t line = 0;
  int32_t file = 0;  // index of the text's file
  // Index of the table row that the text comes from; for questions the index of the passage, for tagged texts the index
  // of the text.
  int64_t row = 0;
  // Only for packed sequences: indices in encoding.ids at which another text starts. Position ids restart at 0 there.
  std::vector<int32_t> restarts = {};
};

class LabeledTexts {
 public:
  LabeledTexts() = default;
  LabeledTexts(std::initializer_list<LabeledText> texts) { append_all(texts); }
  LabeledTexts(std::span<const LabeledText> texts) { append_all(texts); }
  LabeledTexts(const std::vector<LabeledText>& texts) { append_all(texts); }

  void append(const LabeledText& text);
  void append(const Encoding& encoding, int64_t line, int32_t file, int64_t row);  // appends a text without labels

  size_t size() const { return lengths_.size(); }
  bool empty() const { return size() == 0; }
  LabeledText operator[](size_t text) const;  // a copy, without Encoding::places
  std::span<const int32_t> lengths() const { return lengths_; }
  std::span<const int64_t> rows() const { return rows_; }
  int64_t length(size_t text) const { return lengths_[text]; }
  int64_t line(size_t text) const { return lines_[text]; }
  int32_t file(size_t text) const { return files_[text]; }
  std::span<const int32_t> ids(size_t text) const {
    return {ids_.data() + starts_[text], static_cast<size_t>(lengths_[text])};
  }
  std::span<const int32_t> labels(size_t text) const;
  uint8_t type(size_t text, int64_t i) const {
    return types_.empty() ? uint8_t{0} : types_[starts_[text] + static_cast<size_t>(i)];
  }
  // Returns the position id of token i: its index within its own text, which differs from i in packed sequences. For
  // padding it is i.
  int64_t position(size_t text, int64_t i) const {
    return positions_.empty() || i >= lengths_[text] ? i : positions_[starts_[text] + static_cast<size_t>(i)];
  }
  bool joined() const { return !positions_.empty(); }  // true if a sequence holds several packed texts

 private:
  template <class Texts>
  void append_all(const Texts& texts) {
    for (const LabeledText& t : texts) append(t);
  }
  void add_labels(const std::vector<int64_t>& labels);
  void add_positions(const std::vector<int32_t>& restarts);

  SpillVector<int32_t> ids_;
  SpillVector<uint64_t> starts_;
  SpillVector<int32_t> lengths_;
  SpillVector<uint8_t> types_;      // token types, one per token id; empty: all are 0
  SpillVector<int32_t> positions_;  // position ids, one per token id; empty: no sequence is packed
  SpillVector<int32_t> labels_;
  // index in labels_ of each text's first label, then the total count; empty: the labels equal the token ids
  SpillVector<uint64_t> label_starts_;
  SpillVector<int64_t> lines_, rows_;
  SpillVector<int32_t> files_;
};

}  // namespace amp
