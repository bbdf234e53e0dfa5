// TokenModel: cuts a part of a text (usually a word, from the pre-tokenizer) into tokens of a vocabulary. Each kind of
// model is one file in this folder that registers itself with the name that tokenizer.json uses.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace amp {

// A token and the bytes [begin, end) that it covers, counted from the beginning of the part that was cut.
struct ModelToken {
  int32_t id = 0;
  uint32_t begin = 0, end = 0;
};

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
};
using TokenIds = std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>>;

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual void cut(std::string_view part, std::vector<ModelToken>& out) const = 0;
  virtual const TokenIds& vocabulary() const = 0;
  virtual std::string unknown() const { return {}; }  // returns the unknown token; empty: none
};

struct TokenModelKind {
  const char* name;                                                  // such as "BPE"
  bool (*is_one)(const nlohmann::json& model);                       // detects the kind if the file does not name it
  std::unique_ptr<TokenModel> (*read)(const nlohmann::json& model);  // throws E_TOKENIZER
};
struct TokenModelRegistration {
  TokenModelRegistration(TokenModelKind kind);
};
std::unique_ptr<TokenModel> read_model(const nlohmann::json& model);

TokenIds read_ids(const nlohmann::json& vocab);  // reads {"token": id}

// A thread-safe cache: part of a text -> its tokens.
class CutCache {
 public:
  bool find(std::string_view part, std::vector<ModelToken>& out) const;  // appends the tokens to out
  void keep(std::string_view part, const ModelToken* begin, const ModelToken* end) const;

 private:
  static constexpr size_t kShards = 16, kMost = 8192, kLongest = 64;
  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::string, std::vector<ModelToken>, TextHash, std::equal_to<>> parts;
  };
  Shard& shard(std::string_view part) const { return shards_[TextHash{}(part) % kShards]; }
  mutable Shard shards_[kShards];
};

}  // namespace amp
