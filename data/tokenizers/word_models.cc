// Implements two models of words: WordPiece with greedy longest match, and WordLevel, a table of whole words.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "data/tokenizers/model.h"

namespace amp {

namespace {

int32_t need_unknown(const TokenIds& ids, const std::string& unknown) {
  const auto it = ids.find(unknown);
  if (it == ids.end())
    fail(Exit::data, "E_TOKENIZER", cat("the unknown token '", printable(unknown), "' is not in the vocabulary"));
  return it->second;
}

class WordPieceModel final : public TokenModel {
 public:
  explicit WordPieceModel(const nlohmann::json& j) : ids_(read_ids(j.at("vocab"))) {
    unknown_ = j.value("unk_token", "[UNK]");
    unknown_id_ = need_unknown(ids_, unknown_);
    prefix_ = j.value("continuing_subword_prefix", "##");
    most_ = j.value("max_input_chars_per_word", int64_t{100});
    for (const auto& [token, id] : ids_) {
      longest_ = std::max(longest_, token.size());
      if (token.starts_with(prefix_)) continuing_.emplace(token.substr(prefix_.size()), id);
    }
  }

  void cut(std::string_view part, std::vector<ModelToken>& out) const override {
    const auto whole = static_cast<uint32_t>(part.size());
    const size_t before = out.size();
    if (whole > most_ && count_code_points(part) > most_) return out.push_back({unknown_id_, 0, whole});
    for (size_t at = 0; at < part.size();) {
      const TokenIds& ids = at > 0 ? continuing_ : ids_;
      size_t n = std::min(part.size() - at, longest_);
      auto known = ids.end();
      for (; n > 0; --n) {
        if (at + n < part.size() && (static_cast<unsigned char>(part[at + n]) & 0xc0u) == 0x80u)
          continue;  // not at a character boundary
        known = ids.find(part.substr(at, n));
        if (known != ids.end()) break;
      }
      if (known == ids.end()) {  // if one piece of a word is not in the vocabulary, the word becomes the unknown token
        out.resize(before);
        return out.push_back({unknown_id_, 0, whole});
      }
      out.push_back({known->second, static_cast<uint32_t>(at), static_cast<uint32_t>(at + n)});
      at += n;
    }
  }

  const TokenIds& vocabulary() const override { return ids_; }
  std::string unknown() const override { return unknown_; }

 private:
  TokenIds ids_, continuing_;
  std::string unknown_, prefix_;
  int32_t unknown_id_ = -1;
  int64_t most_ = 100;
  size_t longest_ = 0;
};

class WordLevel final : public TokenModel {
 public:
  explicit WordLevel(const nlohmann::json& j) : ids_(read_ids(j.at("vocab"))), unknown_(j.value("unk_token", "<unk>")) {
    unknown_id_ = need_unknown(ids_, unknown_);
  }
  void cut(std::string_view part, std::vector<ModelToken>& out) const override {
    const auto it = ids_.find(part);
    out.push_back({it == ids_.end() ? unknown_id_ : it->second, 0, static_cast<uint32_t>(part.size())});
  }
  const TokenIds& vocabulary() const override { return ids_; }
  std::string unknown() const override { return unknown_; }

 private:
  TokenIds ids_;
  std::string unknown_;
  int32_t unknown_id_ = -1;
};

const TokenModelRegistration pieces{{
    .name = "WordPiece",
    .is_one = [](const nlohmann::json& j) { return j.contains("max_input_chars_per_word"); },
    .read = [](const nlohmann::json& j) -> std::unique_ptr<TokenModel> { return std::make_unique<WordPieceModel>(j); },
}};

const TokenModelRegistration words{{
    .name = "WordLevel",
    .is_one = [](const nlohmann::json&) { return false; },
    .read = [](const nlohmann::json& j) -> std::unique_ptr<TokenModel> { return std::make_unique<WordLevel>(j); },
}};

}  // namespace

}  // namespace amp
