// Unicode's normalization forms, with the places of characters, from utf8proc's tables.
#pragma once

#include "data/tokenizers/normalized_string.h"

namespace amp {

enum class UnicodeForm : uint8_t { nfc, nfd, nfkc, nfkd };
void normalize_form(NormalizedString& t, UnicodeForm form);
bool is_combining_mark(uint32_t code_point);  // Mn, Mc, Me
bool is_numeric(uint32_t code_point);         // Nd, Nl, No

}  // namespace amp
