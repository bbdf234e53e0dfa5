// The character classes of the reference BERT tokenizer (Hugging Face tokenizers 0.23). That tokenizer uses several
// Unicode versions (categories: 8, decomposition: 12, lower case: 17). Therefore the classes have their own tables.
// Decomposition and lower case are utf8proc's, corrected where the reference differs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace amp {

enum class CharClass : uint8_t { other, removed, space, ideograph, mark, punctuation };
CharClass char_class(uint32_t code_point);

// Applies canonical decomposition (NFD) to the whole text, in place.
void decompose(std::vector<uint32_t>& text);
uint32_t lower_case(uint32_t code_point);
int combining_class(uint32_t code_point);
bool has_own_decomposition(uint32_t code_point);  // false: the reference does not decompose it, although utf8proc may

}  // namespace amp
