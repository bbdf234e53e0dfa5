// Implements model.h: the registry of models, helpers for reading them, and the cache of frequent parts.
#include "data/tokenizers/model.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "data/tokenizers/tokenizer_json.h"

namespace amp {

namespace {
std::vector<TokenModelKind>& kinds() {
  static std::vector<TokenModelKind> all;
  return all;
}
}  // namespace

TokenModelRegistration::TokenModelRegistration(TokenModelKind kind) { kinds().push_back(kind); }

std::unique_ptr<TokenModel> read_model(const nlohmann::json& model) {
  const std::string type = model.value("type", "");
  for (const TokenModelKind& k : kinds()) {
    if (type.empty() ? k.is_one(model) : type == k.name) return k.read(model);
  }
  unknown_part("model", type);
}

TokenIds read_ids(const nlohmann::json& vocab) {
  TokenIds ids;
  ids.reserve(vocab.size());
  for (const auto& [token, id] : vocab.items()) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= kMostIds)
      fail(Exit::data, "E_TOKENIZER", cat("the token '", printable(token), "' has no id: ", printable(id.dump())),
           cat("an id is a whole number below ", kMostIds));
    ids.emplace(token, id.get<int32_t>());
  }
  if (ids.empty()) fail(Exit::data, "E_TOKENIZER", "the tokenizer's vocabulary is empty");
  return ids;
}

void unknown_part(const std::string& part, const std::string& type) {
  fail(Exit::data, "E_TOKENIZER", cat("the tokenizer's ", part, " '", printable(type), "' is not supported"),
       "docs/adding_a_tokenizer.md lists what is");
}

std::string from_base64(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int n = 0;
  for (const char c : text) {
    if (c == '=') break;
    const int v = c >= 'A' && c <= 'Z'   ? c - 'A'
                  : c >= 'a' && c <= 'z' ? c - 'a' + 26
                  : c >= '0' && c <= '9' ? c - '0' + 52
                  : c == '+'             ? 62
                  : c == '/'             ? 63
                                         : -1;
    if (v < 0) fail(Exit::data, "E_TOKENIZER", "the tokenizer's precompiled_charsmap is not base64");
    bits = bits << 6 | static_cast<uint32_t>(v);
    n += 6;
    if (n < 8) continue;
    n -= 8;
    out += static_cast<char>(bits >> n & 0xffu);
  }
  return out;
}

bool CutCache::find(std::string_view part, std::vector<ModelToken>& out) const {
  if (part.size() > kLongest) return false;
  Shard& s = shard(part);
  const std::lock_guard lock(s.mutex);
  const auto known = s.parts.find(part);
  if (known == s.parts.end()) return false;
  out.insert(out.end(), known->second.begin(), known->second.end());
  return true;
}

void CutCache::keep(std::string_view part, const ModelToken* begin, const ModelToken* end) const {
  if (part.size() > kLongest) return;
  Shard& s = shard(part);
  const std::lock_guard lock(s.mutex);
  if (s.parts.size() < kMost) s.parts.emplace(part, std::vector<ModelToken>(begin, end));
}

}  // namespace amp
