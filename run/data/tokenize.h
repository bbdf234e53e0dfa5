// Text to token ids and back, as training reads text.
#pragma once

#include <memory>

#include "data/tokenizer.h"
#include "data/utf8.h"  // without_byte_order_mark(), for the first line
#include "run/spec/spec.h"

namespace amp {

// By spec.tokenizer or spec.vocab, else what lies beside spec.model. Exit::usage when there is none.
std::unique_ptr<Tokenizer> tokenizer_of(const RunSpec& spec);

}  // namespace amp
