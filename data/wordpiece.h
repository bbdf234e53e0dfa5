// BERT's tokenizer: cleaning, spaces around ideographs, NFD without accents and lower case, words split at spaces and
// punctuation, greedy longest-match pieces. Its ids equal those of Hugging Face's fast BertTokenizer on any Unicode
// text. A line of text for the `tokenize` verb: WordPiece(Vocab::read(path)).encode(line, max_seq_len).ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/vocab.h"

namespace amp {

struct WordPieceOptions {
  bool lower_case = true;            // also strips accents; a cased vocabulary needs false
  int64_t max_chars_per_word = 100;  // a longer word is [UNK]
};

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<uint8_t> types;  // token type of each id: 0, and 1 for a pair's second text with its [SEP]
};

struct Piece {
  int32_t id = 0;
  int32_t begin = 0, end = 0;  // of the text, in code points
};

class WordPiece {
 public:
  explicit WordPiece(Vocab vocab, const WordPieceOptions& options = {});
  const Vocab& vocab() const { return vocab_; }

  // [CLS] text [SEP], or [CLS] a [SEP] b [SEP], cut to max_seq_len ids (0: not cut), a pair at its longer text first.
  // E_DATA_UTF8 when the text is not UTF-8; E_SEQ_LEN (exit 2) when max_seq_len cannot hold the special tokens.
  Encoding encode(std::string_view text, int64_t max_seq_len = 0) const;
  Encoding encode_pair(std::string_view a, std::string_view b, int64_t max_seq_len = 0) const;

  // Ids without [CLS] and [SEP]; special tokens written in the text are those tokens.
  std::vector<int32_t> tokenize(std::string_view text) const;
  // The same ids with the places they come from.
  std::vector<Piece> pieces(std::string_view text) const;
  // The words before they are cut into pieces; special tokens are not looked for.
  std::vector<std::string> words(std::string_view text) const;

 private:
  struct Word {
    std::string text;
    int64_t chars = 0;
    std::vector<int32_t> from;  // of each character: the code point of the text; only when asked for
  };
  template <class F>
  void for_each_word(std::string_view text, F&& f, bool places = false) const;
  template <class Plain, class Special>
  void split_at_specials(std::string_view text, Plain&& plain, Special&& special) const;
  void append_pieces(const Word& word, std::vector<int32_t>& ids) const;
  int32_t special_at(std::string_view text, size_t at) const;
  Vocab vocab_;
  WordPieceOptions options_;
  std::vector<int32_t> special_;  // ids of the special tokens present
};

}  // namespace amp
