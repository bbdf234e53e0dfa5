// Unicode's normalization forms by utf8proc's tables. They keep track of the place in the original text that each
// character comes from.
#pragma once

#include "data/tokenizers/normalized_string.h"

namespace amp {

enum class UnicodeForm : uint8_t { nfc, nfd, nfkc, nfkd };
void normalize_form(NormalizedString& t, UnicodeForm form);
bool is_combining_mark(uint32_t code_point);  // true for Unicode's categories Mn, Mc, Me
bool is_numeric(uint32_t code_point);         // true for Unicode's categories Nd, Nl, No

}  // namespace amp
