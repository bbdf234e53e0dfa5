// From tokens back to text: the steps of Hugging Face's decoders, each on a list of texts whose concatenation is the
// result.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace amp {

using DecodeStep = std::function<void(std::vector<std::string>&)>;

// WordPiece: tokens between spaces, those with the prefix joined to the one before; cleanup: " ." is "." and the like.
std::string decode_word_pieces(std::vector<std::string> tokens, const std::string& prefix, bool cleanup);

DecodeStep word_piece_step(std::string prefix, bool cleanup);
DecodeStep byte_level_step();                                        // characters that stand for bytes
DecodeStep byte_fallback_step();                                     // <0xE2> and its kind
DecodeStep metaspace_step(std::string replacement, bool prepended);  // spaces, the first left out when it was added
DecodeStep suffix_step(std::string suffix);                          // BPE: a suffix is a space, of the last nothing
DecodeStep replace_step(std::string pattern, std::string content);
DecodeStep fuse_step();                                                 // one text
DecodeStep strip_step(std::string content, size_t start, size_t stop);  // at most so many of it at either end

}  // namespace amp
