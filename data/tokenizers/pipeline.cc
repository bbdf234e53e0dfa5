// Implements the tokenizer pipeline: added tokens, normalizer, pre-tokenizer and model, and the decoders, which turn
// tokens back into text. Offsets of tokens count code points of the original text, not of the normalized one.
#include "data/tokenizers/pipeline.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "data/tokenizers/byte_level.h"
#include "data/tokenizers/tokenizer_json.h"

namespace amp {

namespace {

// Maps bytes of a text to code points.
class CodePoints {
 public:
  explicit CodePoints(std::string_view text) {
    if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; })) return;
    at_.reserve(text.size() + 1);
    int32_t n = -1;
    for (const char c : text) {
      n += (static_cast<unsigned char>(c) & 0xc0u) != 0x80u;
      at_.push_back(n);
    }
    at_.push_back(n + 1);
  }
  int32_t operator()(uint32_t byte) const { return at_.empty() ? static_cast<int32_t>(byte) : at_[byte]; }

 private:
  // Indexed by byte: code point index; empty for ASCII text, in which bytes and code points have equal indices.
  std::vector<int32_t> at_;
};

class TokenizerPipeline final : public Tokenizer {
 public:
  explicit TokenizerPipeline(PipelineParts parts) : p_(std::move(parts)), added_(std::move(p_.added), p_.normalizer) {
    special_ = p_.special;
    if (!p_.single.empty()) single_ = p_.single;
    if (!p_.pair.empty()) pair_ = p_.pair;
    cut_left_ = p_.cut_left;
    for (const auto& [token, id] : p_.model->vocabulary()) name(id, token);
    for (size_t i = 0; i < added_.all().size(); ++i) {
      const AddedToken& a = added_.all()[i];
      name(a.id, added_.looked_for(i));
      if (a.special) hidden_.insert(a.id);
    }
  }

  std::vector<Piece> pieces(std::string_view text) const override {
    std::vector<Piece> out;
    NormalizedString t(text, 0);
    const CodePoints code_points(text);
    added_.split(t, false);
    if (!p_.normalizer) return finish(t, code_points, out), out;
    for (const Split& s : t.splits) {
      if (s.id >= 0) {
        put(t, s, s.id, code_points, out);
        continue;
      }
      NormalizedString part;
      part.text = t.at(s);
      part.from.assign(t.from.begin() + s.begin, t.from.begin() + s.end);
      part.origin = t.place(s).begin;
      p_.normalizer(part);
      if (!part.text.empty()) part.splits = {{0, static_cast<uint32_t>(part.text.size()), -1}};
      finish(part, code_points, out);
    }
    return out;
  }

  std::vector<int32_t> tokenize_word(std::string_view word) const override {
    return p_.spaced_words && !word.starts_with(' ') ? tokenize(cat(" ", word)) : tokenize(word);
  }

  std::string decode(std::span<const int32_t> ids, bool keep_special) const override {
    std::vector<std::string> tokens;
    for (const int32_t id : ids) {
      const std::string_view text = token(id);
      if (!text.empty() && (keep_special || hidden_.count(id) == 0)) tokens.emplace_back(text);
    }
    if (p_.decoders.empty()) return join(tokens, " ");
    for (const DecodeStep& step : p_.decoders) step(tokens);
    return join(tokens, "");
  }

  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }
  std::string_view token(int32_t id) const override {
    return id >= 0 && id < size() ? std::string_view(tokens_[static_cast<size_t>(id)]) : std::string_view();
  }
  int32_t find(std::string_view token) const override {
    for (const AddedToken& a : added_.all()) {
      if (a.content == token) return a.id;
    }
    const auto it = p_.model->vocabulary().find(token);
    return it == p_.model->vocabulary().end() ? -1 : it->second;
  }

 private:
  void name(int32_t id, const std::string& token) {
    if (tokens_.size() <= static_cast<size_t>(id)) tokens_.resize(static_cast<size_t>(id) + 1);
    tokens_[static_cast<size_t>(id)] = token;
  }

  // Converts normalized text to tokens.
  void finish(NormalizedString& t, const CodePoints& code_points, std::vector<Piece>& out) const {
    added_.split(t, true);
    if (p_.pre_tokenizer) p_.pre_tokenizer(t);
    std::vector<ModelToken> tokens;
    for (const Split& s : t.splits) {
      if (s.id >= 0) {
        put(t, s, s.id, code_points, out);
        continue;
      }
      tokens.clear();
      p_.model->cut(t.at(s), tokens);
      for (const ModelToken& m : tokens) put(t, {s.begin + m.begin, s.begin + m.end, -1}, m.id, code_points, out);
    }
  }

  void put(const NormalizedString& t, const Split& s, int32_t id, const CodePoints& code_points,
           std::vector<Piece>& out) const {
    const TextPlace place = t.place(s);
    Piece piece = {id, code_points(place.begin), code_points(place.end)};
    if (p_.trim_places) trim(piece, s.id >= 0 ? t.at(s) : token(id), out.empty());
    out.push_back(piece);
  }

  // Excludes a token's spaces from its offsets, except a space that was added before the text.
  void trim(Piece& piece, std::string_view text, bool first) const {
    static const std::string& space = kByteLevel[' '];
    int32_t leading = 0, trailing = 0;
    for (size_t at = 0; at < text.size(); ++leading) {
      const CodePoint c = decode_utf8(text, at);
      if (!text.substr(at).starts_with(space) && !is_space(c.value)) break;
      at += static_cast<size_t>(std::max(c.bytes, 1));
    }
    for (size_t end = text.size(); end > 0; ++trailing) {
      size_t at = end - 1;
      while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0u) == 0x80u) --at;
      if (text.substr(at, end - at) != space && !is_space(decode_utf8(text, at).value)) break;
      end = at;
    }
    if (leading > 0) {
      if ((first || piece.begin == 0) && p_.add_prefix_space && leading == 1) leading = 0;
      piece.begin = std::min(piece.begin + leading, piece.end);
    }
    if (trailing > 0 && piece.end >= trailing) piece.end = std::max(piece.end - trailing, piece.begin);
  }

  PipelineParts p_;
  AddedTokens added_;
  std::vector<std::string> tokens_;
  std::set<int32_t> hidden_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_pipeline(PipelineParts parts) {
  return std::make_unique<TokenizerPipeline>(std::move(parts));
}

}  // namespace amp
