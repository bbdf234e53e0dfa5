// Packing: forms sequences from texts that are longer or shorter than max_seq_len.
#pragma once

#include <cstdint>
#include <vector>

#include "data/labeled_texts.h"
#include "data/tokenizer.h"

namespace amp {

enum class TextPacking : uint8_t {
  none,  // one sequence per text, truncated at max_seq_len
  // A long text continues in further sequences. Each repeats the last tokens of the sequence before it; no loss is
  // computed for repeated tokens.
  stride,
  // Concatenates all texts and cuts them into sequences of max_seq_len, as run_clm and TRL's "wrapped" do.
  wrapped,
  // Combines whole texts by best-fit decreasing, as TRL's "bfd"; position ids restart at 0 with each text.
  bfd,
};

// Cuts a text into overlapping windows, each with the special tokens of `frame`, which is the tokenizer's single()
// template. `text` has these special tokens already. Throws E_SEQ_LEN if special tokens and `stride` leave no space for
// new tokens.
std::vector<LabeledText> windows_of(LabeledText text, const TokenTemplate& frame, int64_t max_seq_len, int64_t stride);

// Concatenates the texts and cuts them into sequences of `length` ids (TextPacking::wrapped).
LabeledTexts wrap_texts(const LabeledTexts& texts, int64_t length);

// Combines texts of at most `length` ids into sequences (TextPacking::bfd), in the order of TRL.
LabeledTexts pack_texts(const LabeledTexts& texts, int64_t length);

}  // namespace amp
