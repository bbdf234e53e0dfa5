// BERT's tokenizer: cleaning, spaces around ideographs, NFD without accents and lower case, words split at spaces and
// punctuation, greedy longest-match pieces. Its ids equal those of Hugging Face's fast BertTokenizer for any Unicode
// text. The vocabulary is a vocab.txt; json_tokenizer.cc reads a tokenizer.json of the same kind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"
#include "data/tokenizers/vocab.h"

namespace amp {

struct WordPieceOptions {
  bool lower_case = true;            // also strips accents; a cased vocabulary needs false
  int64_t max_chars_per_word = 100;  // a longer word becomes [UNK]
};

class WordPiece final : public Tokenizer {
 public:
  explicit WordPiece(Vocab vocab, const WordPieceOptions& options = {});
  const Vocab& vocab() const { return vocab_; }

  std::vector<Piece> pieces(std::string_view text) const override;
  std::vector<int32_t> tokenize(std::string_view text) const override;
  std::string decode(std::span<const int32_t> ids, bool keep_special = false) const override;
  int64_t size() const override { return vocab_.size(); }
  std::string_view token(int32_t id) const override;
  int32_t find(std::string_view token) const override { return vocab_.find(token); }

  // Returns the words before they are cut into pieces. Special tokens in the text are not recognized.
  std::vector<std::string> words(std::string_view text) const;

 private:
  struct Word {
    std::string text;
    int64_t chars = 0;
    std::vector<int32_t> from;  // index of each character's code point in the text; only on request
  };
  template <class F>
  void for_each_word(std::string_view text, F&& f, bool places = false) const;
  template <class Plain, class Special>
  void split_at_specials(std::string_view text, Plain&& plain, Special&& special) const;
  void append_pieces(const Word& word, std::vector<int32_t>& ids) const;
  int32_t special_at(std::string_view text, size_t at) const;
  Vocab vocab_;
  WordPieceOptions options_;
  std::vector<int32_t> specials_;  // ids of the special tokens in the vocabulary
};

}  // namespace amp
