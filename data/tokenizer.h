// Tokenizer: converts text to the ids of a model's vocabulary and back. Implementations are in data/tokenizers/, one
// file each (docs/adding_a_tokenizer.md); no other code depends on their kinds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace amp {

// A token with its offsets in the text, in code points.
struct Piece {
  int32_t id = 0;
  int32_t begin = 0, end = 0;
};

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<uint8_t> types;  // token type of each id: 0, and usually 1 for a pair's second text
  // if requested: the range [begin, end) of the text, in code points, that each id covers; (0, 0) for special tokens
  std::vector<std::pair<int32_t, int32_t>> places;
  bool cut = false;  // truncated at max_seq_len
};

// Ids of special tokens; -1: not in the vocabulary.
struct SpecialIds {
  int32_t unk = -1, pad = -1, cls = -1, sep = -1, mask = -1, bos = -1, eos = -1;
};

// An element of a template: a special token, or the first or second text.
struct TemplatePart {
  enum class What : uint8_t { special, first, second };
  What what = What::special;
  int32_t id = -1;  // id of the special token
  uint8_t type = 0;
};
using TokenTemplate = std::vector<TemplatePart>;

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Tokenizes a text without adding special tokens. Special tokens that are written in the text become their ids.
  // Throws E_DATA_UTF8 if the text is not UTF-8.
  virtual std::vector<Piece> pieces(std::string_view text) const = 0;
  virtual std::vector<int32_t> tokenize(std::string_view text) const;       // returns only ids
  virtual std::vector<int32_t> tokenize_word(std::string_view word) const;  // a word of a text given as words
  virtual std::string decode(std::span<const int32_t> ids, bool keep_special = false) const = 0;

  virtual int64_t size() const = 0;                        // a limit: all ids are below this
  virtual std::string_view token(int32_t id) const = 0;    // returns an empty text for an unknown id
  virtual int32_t find(std::string_view token) const = 0;  // returns -1 for an unknown token

  const SpecialIds& special() const { return special_; }
  int32_t pad() const;  // id used as padding: that of pad, else of eos, else 0 (padding is masked)
  const TokenTemplate& single() const { return single_; }
  const TokenTemplate& pair() const { return pair_; }

  // Tokenizes a text or a pair and adds special tokens. The result is truncated to max_seq_len ids (0: not truncated);
  // a pair loses tokens of its longer text first. Throws E_SEQ_LEN (exit 2) if max_seq_len cannot hold the special
  // tokens.
  Encoding encode(std::string_view text, int64_t max_seq_len = 0, bool places = false) const;
  Encoding encode_pair(std::string_view a, std::string_view b, int64_t max_seq_len = 0, bool places = false) const;

 protected:
  SpecialIds special_;
  TokenTemplate single_ = {{TemplatePart::What::first}},
                pair_ = {{TemplatePart::What::first}, {TemplatePart::What::second, -1, 1}};
  bool cut_left_ = false;  // truncation removes the beginning
};

int64_t count_special(const TokenTemplate& frame);
// Inserts texts into a template.
Encoding assemble(const TokenTemplate& frame, std::span<const Piece> first, std::span<const Piece> second = {},
                  bool places = false);
// Returns the number of ids before `text` in the assembled template.
int64_t ids_before(const TokenTemplate& frame, TemplatePart::What text, int64_t first_length);

// Options that a tokenizer's files do not contain.
struct TokenizerOptions {
  bool lower_case = true;  // for vocab.txt: lower case, without accents
};

// Opens a file, or the first tokenizer in a folder (tokenizer.json, vocab.json and merges.txt, spiece.model, vocab.txt,
// in this order). Throws E_TOKENIZER (exit 5) for files that are not supported, and E_VOCAB for a bad vocabulary.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path, const TokenizerOptions& options = {});
std::string find_tokenizer(const std::string& folder);  // file that open_tokenizer would read; empty: none
std::vector<std::string> tokenizer_files();             // all file names that tokenizers use

// A file format, registered by the .cc file that reads it: `const TokenizerRegistration registered{{...}};`.
struct TokenizerFormat {
  int order;                                    // formats with lower numbers are tried first
  std::vector<std::string> names;               // file names in a folder
  bool (*reads)(const std::string& file_name);  // returns whether the format reads a file of this name
  std::unique_ptr<Tokenizer> (*open)(const std::string& path, const TokenizerOptions& options);
  std::vector<std::string> beside = {};  // other files of the folder that `open` reads
};
struct TokenizerRegistration {
  TokenizerRegistration(TokenizerFormat format);
};

}  // namespace amp
