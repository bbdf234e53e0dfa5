// Implements BERT's tokenizer for vocab.txt files. It works on code points instead of NormalizedString, and computes
// offsets only on request. decompose() and char_class() are in bert_unicode.cc.
#include "data/tokenizers/wordpiece.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "data/tokenizers/bert_unicode.h"
#include "data/tokenizers/decoders.h"

namespace amp {

namespace {

// Removes control characters, replaces all white space by ' ', and puts ' ' around ideographs. lower: also decomposes,
// strips accents and lowers case. from: if given, receives for each character the index of its code point in the text.
void normalize(std::string_view text, bool lower, std::vector<uint32_t>& out, std::vector<int32_t>* from = nullptr) {
  out.clear();
  std::vector<int32_t> origin;
  int32_t index = 0;
  for (size_t at = 0; at < text.size(); ++index) {
    const CodePoint c = decode_utf8(text, at);
    if (c.bytes == 0) {
      fail(Exit::data, "E_DATA_UTF8", cat("the text is not UTF-8 at byte ", at), "convert the file to UTF-8");
    }
    at += static_cast<size_t>(c.bytes);
    switch (char_class(c.value)) {
      case CharClass::removed:
        break;
      case CharClass::space:
        out.push_back(' ');
        break;
      case CharClass::ideograph:
        out.push_back(' ');
        out.push_back(c.value);
        out.push_back(' ');
        break;
      default:
        out.push_back(c.value);
    }
    if (from) origin.resize(out.size(), index);
  }
  if (from && !lower) *from = std::move(origin);
  if (!lower) return;
  if (from) {
    // Decomposes each character separately. Reordering of marks does not matter, because marks are removed below.
    from->clear();
    std::vector<uint32_t> one;
    for (size_t i = 0; i < out.size(); ++i) {
      one.assign(1, out[i]);
      decompose(one);
      for (const uint32_t c : one) {
        if (char_class(c) != CharClass::mark) from->push_back(origin[i]);
      }
    }
  }
  decompose(out);
  size_t n = 0;
  for (const uint32_t c : out) {
    if (char_class(c) != CharClass::mark) out[n++] = lower_case(c);
  }
  out.resize(n);
}

}  // namespace

WordPiece::WordPiece(Vocab vocab, const WordPieceOptions& options) : vocab_(std::move(vocab)), options_(options) {
  for (const int32_t id : {vocab_.cls(), vocab_.sep(), vocab_.pad(), vocab_.unk(), vocab_.mask()}) {
    if (id >= 0) specials_.push_back(id);
  }
  special_ = {
      .unk = vocab_.unk(), .pad = vocab_.pad(), .cls = vocab_.cls(), .sep = vocab_.sep(), .mask = vocab_.mask()};
  using What = TemplatePart::What;
  single_ = {{What::special, special_.cls}, {What::first}, {What::special, special_.sep}};
  pair_ = single_;
  pair_.insert(pair_.end(), {{What::second, -1, 1}, {What::special, special_.sep, 1}});
}

template <class F>
void WordPiece::for_each_word(std::string_view text, F&& f, bool places) const {
  std::vector<uint32_t> chars;
  std::vector<int32_t> from;
  normalize(text, options_.lower_case, chars, places ? &from : nullptr);
  Word word;
  const auto flush = [&] {
    if (word.chars > 0) f(word);
    word.text.clear();
    word.chars = 0;
    word.from.clear();
  };
  for (size_t i = 0; i < chars.size(); ++i) {
    const uint32_t c = chars[i];
    const CharClass k = char_class(c);
    const bool alone = k == CharClass::punctuation;
    if (alone || k == CharClass::space) flush();
    if (k == CharClass::space) continue;
    append_utf8(word.text, c);
    ++word.chars;
    if (places) word.from.push_back(from.at(i));
    if (alone) flush();
  }
  flush();
}

std::vector<std::string> WordPiece::words(std::string_view text) const {
  std::vector<std::string> out;
  for_each_word(text, [&](const Word& w) { out.push_back(w.text); });
  return out;
}

void WordPiece::append_pieces(const Word& word, std::vector<int32_t>& ids) const {
  if (word.chars > options_.max_chars_per_word) return ids.push_back(vocab_.unk());
  const size_t before = ids.size();
  std::string_view rest = word.text;
  while (!rest.empty()) {
    const bool first = ids.size() == before;
    size_t n = std::min(rest.size(), vocab_.longest());
    int32_t id = -1;
    for (; n > 0; --n) {
      // Skips lengths that do not end at a character boundary.
      if (n < rest.size() && (static_cast<unsigned char>(rest[n]) & 0xc0u) == 0x80u) continue;
      id = first ? vocab_.find(rest.substr(0, n)) : vocab_.find_continuing(rest.substr(0, n));
      if (id >= 0) break;
    }
    if (id < 0) {  // if one piece of a word is not in the vocabulary, the word becomes the unknown token
      ids.resize(before);
      return ids.push_back(vocab_.unk());
    }
    ids.push_back(id);
    rest.remove_prefix(n);
  }
}

int32_t WordPiece::special_at(std::string_view text, size_t at) const {
  int32_t best = -1;
  for (const int32_t id : specials_) {
    const std::string_view token = vocab_.token(id);
    if (text.substr(at, token.size()) == token) best = id;
  }
  return best;
}

// Calls plain(part) and special(id, part) for the parts of the text, in order.
template <class Plain, class Special>
void WordPiece::split_at_specials(std::string_view text, Plain&& plain, Special&& special) const {
  size_t start = 0;
  for (size_t at = text.find('['); at != std::string_view::npos; at = text.find('[', at)) {
    const int32_t id = special_at(text, at);
    if (id < 0) {
      ++at;
      continue;
    }
    if (at > start) plain(text.substr(start, at - start));
    special(id, text.substr(at, vocab_.token(id).size()));
    start = at += vocab_.token(id).size();
  }
  if (start < text.size()) plain(text.substr(start));
}

std::vector<int32_t> WordPiece::tokenize(std::string_view text) const {
  std::vector<int32_t> ids;
  split_at_specials(
      text, [&](std::string_view part) { for_each_word(part, [&](const Word& w) { append_pieces(w, ids); }); },
      [&](int32_t id, std::string_view) { ids.push_back(id); });
  return ids;
}

std::vector<Piece> WordPiece::pieces(std::string_view text) const {
  std::vector<Piece> out;
  int32_t before = 0;  // number of code points of the text before this part
  const auto plain = [&](std::string_view part) {
    const auto add = [&](const Word& w) {
      std::vector<int32_t> ids;
      append_pieces(w, ids);
      size_t at = 0;
      for (size_t i = 0; i < ids.size(); ++i) {
        const std::string_view token = vocab_.token(ids[i]);
        const bool whole = ids[i] == vocab_.unk();
        const size_t n = whole ? w.from.size() - at : static_cast<size_t>(count_code_points(token)) - (i > 0 ? 2 : 0);
        out.push_back({ids[i], before + w.from.at(at), before + w.from.at(at + n - 1) + 1});
        at += n;
      }
    };
    for_each_word(part, add, true);
    before += static_cast<int32_t>(count_code_points(part));
  };
  split_at_specials(text, plain, [&](int32_t id, std::string_view part) {
    const auto n = static_cast<int32_t>(count_code_points(part));
    out.push_back({id, before, before + n});
    before += n;
  });
  return out;
}

std::string_view WordPiece::token(int32_t id) const {
  return id >= 0 && id < size() ? vocab_.token(id) : std::string_view();
}

std::string WordPiece::decode(std::span<const int32_t> ids, bool keep_special) const {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    if (keep_special || std::find(specials_.begin(), specials_.end(), id) == specials_.end())
      tokens.emplace_back(token(id));
  }
  return decode_word_pieces(tokens, "##", true);
}

const TokenizerRegistration wordpiece_row{{
    .order = 100,  // last: files of any other name are read as a vocab.txt
    .names = {"vocab.txt"},
    .reads = [](const std::string&) { return true; },
    .open = [](const std::string& path, const TokenizerOptions& options) -> std::unique_ptr<Tokenizer> {
      WordPieceOptions o;
      o.lower_case = options.lower_case;
      return std::make_unique<WordPiece>(Vocab::read(path), o);
    },
}};

}  // namespace amp
