// What a tokenizer does: text to the ids of a model's vocabulary and back. Bodies lie in data/tokenizers/, a file each
// (docs/adding_a_tokenizer.md); nothing outside them knows their kinds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace amp {

// A token with its place in the text, in code points.
struct Piece {
  int32_t id = 0;
  int32_t begin = 0, end = 0;
};

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<uint8_t> types;  // token type of each id: 0, and most often 1 for a pair's second text
  std::vector<std::pair<int32_t, int32_t>>
      places;        // where asked for: begin and end of each in its text; (0, 0) of added
  bool cut = false;  // at max_seq_len
};

// Ids with a meaning of their own; -1: the vocabulary has none.
struct SpecialIds {
  int32_t unk = -1, pad = -1, cls = -1, sep = -1, mask = -1, bos = -1, eos = -1;
};

// What a model reads around one text or two: special tokens and texts in their order.
struct FramePart {
  enum class What : uint8_t { special, first, second };
  What what = What::special;
  int32_t id = -1;  // of a special token
  uint8_t type = 0;
};
using Frame = std::vector<FramePart>;

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Tokens of a text without what a frame adds; special tokens that are written in the text are those tokens.
  // E_DATA_UTF8 when the text is not UTF-8.
  virtual std::vector<Piece> pieces(std::string_view text) const = 0;
  virtual std::vector<int32_t> tokenize(std::string_view text) const;       // the ids alone
  virtual std::vector<int32_t> tokenize_word(std::string_view word) const;  // of a text given word by word
  virtual std::string decode(std::span<const int32_t> ids, bool keep_special = false) const = 0;

  virtual int64_t size() const = 0;                        // ids are below it
  virtual std::string_view token(int32_t id) const = 0;    // empty: there is none
  virtual int32_t find(std::string_view token) const = 0;  // -1: there is none

  const SpecialIds& special() const { return special_; }
  int32_t pad() const;  // what batches are filled up with: pad, else eos, else 0 (masked all the same)
  const Frame& single() const { return single_; }
  const Frame& pair() const { return pair_; }

  // A framed text or pair, cut to max_seq_len ids (0: not cut), a pair at its longer text first. E_SEQ_LEN (exit 2)
  // when max_seq_len cannot hold the special tokens.
  Encoding encode(std::string_view text, int64_t max_seq_len = 0, bool places = false) const;
  Encoding encode_pair(std::string_view a, std::string_view b, int64_t max_seq_len = 0, bool places = false) const;

 protected:
  SpecialIds special_;
  Frame single_ = {{FramePart::What::first}}, pair_ = {{FramePart::What::first}, {FramePart::What::second, -1, 1}};
  bool cut_left_ = false;  // longer texts lose their beginning
};

int64_t specials_in(const Frame& frame);
// The frame with texts in it.
Encoding assemble(const Frame& frame, std::span<const Piece> first, std::span<const Piece> second = {},
                  bool places = false);
// How many ids stand before that text in an assembled frame.
int64_t ids_before(const Frame& frame, FramePart::What text, int64_t first_length);

// What a tokenizer's files do not say themselves.
struct TokenizerOptions {
  bool lower_case = true;  // of a vocab.txt: lower-cased, accents stripped
};

// A file, or a folder with one (tokenizer.json, vocab.json and merges.txt, spiece.model, vocab.txt, in this order).
// E_TOKENIZER (exit 5) for a file that is none or has what is not supported, E_VOCAB for a vocabulary.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path, const TokenizerOptions& options = {});
std::string find_tokenizer(const std::string& folder);  // the file in it that open_tokenizer would take; empty: none
std::vector<std::string> tokenizer_files();             // all names that a tokenizer's files have

// A kind of file, registered by the .cc file that reads it: `const TokenizerRegistration registered{{...}};`.
struct TokenizerFormat {
  int order;                                    // lower ones are asked first
  std::vector<std::string> names;               // in a folder
  bool (*reads)(const std::string& file_name);  // a file given by name
  std::unique_ptr<Tokenizer> (*open)(const std::string& path, const TokenizerOptions& options);
  std::vector<std::string> beside = {};  // what else `open` reads in the file's folder
};
struct TokenizerRegistration {
  TokenizerRegistration(TokenizerFormat format);
};

}  // namespace amp
