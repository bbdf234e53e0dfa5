// Opens the tokenizer of a run, which converts text to token ids and back as in training.
#pragma once

#include <memory>

#include "base/utf8.h"  // without_byte_order_mark(), for the first line
#include "data/tokenizer.h"

namespace amp {

struct RunSpec;

// Opens the tokenizer that tokenizer_path() finds. Throws Exit::usage if there is none.
std::unique_ptr<Tokenizer> tokenizer_of(const RunSpec& spec);

// Returns the size and checksum of the tokenizer in use, "N bytes of CRC-32C X", or "" without a tokenizer.
std::string tokenizer_sum(const RunSpec& spec);

}  // namespace amp
