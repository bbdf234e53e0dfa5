// The tokenizer of a run, for text to token ids and back as in training.
#pragma once

#include <memory>

#include "data/tokenizer.h"
#include "data/utf8.h"  // without_byte_order_mark(), for the first line

namespace amp {

struct RunSpec;

// --tokenizer, else --vocab, else the one in the model's folder (tokenizer_path()). Exit::usage if there is none.
std::unique_ptr<Tokenizer> tokenizer_of(const RunSpec& spec);

// Returns "N bytes of CRC-32C X" of the tokenizer in use; empty without one.
std::string tokenizer_sum(const RunSpec& spec);

}  // namespace amp
