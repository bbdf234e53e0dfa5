// What becomes of texts that are longer or shorter than a model's sequences.
#pragma once

#include <cstdint>
#include <vector>

#include "data/labelled_texts.h"
#include "data/tokenizer.h"

namespace amp {

enum class TextPacking : uint8_t {
  none,  // a sequence each, cut at max_seq_len
  stride,  // what is longer goes on in further sequences, which begin with the last tokens of the one before: no loss on these
  wrapped,  // one after the other without regard to their borders, cut into sequences of max_seq_len: run_clm, TRL's "wrapped"
  bfd,  // whole ones put together, best fit decreasing, as TRL's "bfd"; positions begin again with each
};

// The windows of a text whose frame is the tokenizer's single().
std::vector<LabelledText> windows_of(LabelledText text, const Frame& frame, int64_t max_seq_len, int64_t stride);

LabelledTexts wrap_texts(const LabelledTexts& texts, int64_t length);

// Texts of at most `length` ids. Their order is TRL's.
LabelledTexts pack_texts(const LabelledTexts& texts, int64_t length);

}  // namespace amp
