// The decoder steps of Hugging Face tokenizers. Each step changes a list of texts, whose concatenation is the result.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace amp {

using DecodeStep = std::function<void(std::vector<std::string>&)>;

// Joins WordPiece's tokens. Tokens with the prefix are appended directly, all others after a space. cleanup: " ."
// becomes "." and the like.
std::string decode_word_pieces(std::vector<std::string> tokens, const std::string& prefix, bool cleanup);

DecodeStep word_piece_step(std::string prefix, bool cleanup);
DecodeStep byte_level_step();                                        // converts byte-level characters to bytes
DecodeStep byte_fallback_step();                                     // converts tokens such as <0xE2> to bytes
DecodeStep metaspace_step(std::string replacement, bool prepended);  // marks to spaces; drops a prepended mark
// For BPE: replaces the suffix by a space, and removes it from the last token.
DecodeStep suffix_step(std::string suffix);
DecodeStep replace_step(std::string pattern, std::string content);
DecodeStep fuse_step();                                                 // joins all texts
DecodeStep strip_step(std::string content, size_t start, size_t stop);  // removes at most that many at each end

}  // namespace amp
