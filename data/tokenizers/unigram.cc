// Unigram language model (Kudo 2018, arXiv:1804.10959): splits a text into tokens in the most probable way, by the
// Viterbi algorithm over the tokens that start at each character. Scores have to equal Hugging Face's to the last bit,
// because the last bit decides between equally probable splits.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "data/tokenizers/byte_level.h"
#include "data/tokenizers/model.h"

namespace amp {

namespace {

// A prefix tree of the tokens. The children of a node are consecutive and sorted by byte.
class Trie {
 public:
  explicit Trie(std::vector<std::pair<std::string_view, int32_t>> tokens) {
    std::sort(tokens.begin(), tokens.end());
    nodes_.push_back({});
    std::vector<Branch> open = {{0, tokens.size(), 0, 0}};
    while (!open.empty()) {
      const Branch b = open.back();
      open.pop_back();
      build(tokens, b, open);
    }
    for (uint32_t c = nodes_[0].first; c < nodes_[0].first + nodes_[0].count; ++c)
      roots_[bytes_[c]] = static_cast<int32_t>(c);
  }

  // Calls f(length, id) for each token that is a prefix of text, shortest first.
  template <class F>
  void prefixes(std::string_view text, F&& f) const {
    int32_t node = text.empty() ? -1 : roots_[static_cast<unsigned char>(text[0])];
    for (size_t n = 1; node >= 0; ++n) {
      const Node& x = nodes_[static_cast<size_t>(node)];
      if (x.id >= 0) f(n, x.id);
      node = n < text.size() ? child(x, static_cast<unsigned char>(text[n])) : -1;
    }
  }

 private:
  struct Node {
    uint32_t first = 0;
    uint16_t count = 0;
    int32_t id = -1;
  };

  int32_t child(const Node& x, unsigned char byte) const {
    const auto begin = bytes_.begin() + x.first, end = begin + x.count;
    const auto at = x.count <= 8 ? std::find(begin, end, byte) : std::lower_bound(begin, end, byte);
    return at != end && *at == byte ? static_cast<int32_t>(at - bytes_.begin()) : -1;
  }

  // A node of tokens [from, to), which share their first `depth` bytes.
  struct Branch {
    size_t from, to, depth, node;
  };

  // Adds the node's children to the tree and appends them to `open`.
  void build(const std::vector<std::pair<std::string_view, int32_t>>& tokens, Branch b, std::vector<Branch>& open) {
    while (b.from < b.to && tokens[b.from].first.size() == b.depth) nodes_[b.node].id = tokens[b.from++].second;
    const size_t first = nodes_.size();
    nodes_[b.node].first = static_cast<uint32_t>(first);
    for (size_t i = b.from; i < b.to;) {
      size_t j = i;
      while (j < b.to && tokens[j].first[b.depth] == tokens[i].first[b.depth]) ++j;
      open.push_back({i, j, b.depth + 1, nodes_.size()});
      nodes_.push_back({});
      bytes_.resize(nodes_.size());
      bytes_.back() = static_cast<unsigned char>(tokens[i].first[b.depth]);
      i = j;
    }
    nodes_[b.node].count = static_cast<uint16_t>(nodes_.size() - first);
  }

  std::vector<Node> nodes_;
  std::vector<unsigned char> bytes_;  // last byte of the path to each node
  std::array<int32_t, 256> roots_ = [] {
    std::array<int32_t, 256> none;
    none.fill(-1);
    return none;
  }();
};

// Returns a score as Hugging Face computes it: serde_json rounds the digits to a double and multiplies by a power of
// ten. The last bit decides between two ways to split a text that are almost equally probable.
double read_score(double exact) {
  char text[32];
  const char* const end = std::to_chars(text, text + sizeof text, exact, std::chars_format::scientific).ptr;
  uint64_t digits = 0;
  int exponent = 0, after_point = 0;
  bool point = false;
  for (const char* c = text; c != end; ++c) {
    if (*c == 'e') {
      exponent = std::atoi(std::string(c + 1, static_cast<size_t>(end - c - 1)).c_str());
      break;
    }
    point |= *c == '.';
    if (*c < '0' || *c > '9') continue;
    digits = digits * 10 + static_cast<uint64_t>(*c - '0');
    after_point += point;
  }
  exponent -= after_point;
  if (!std::isfinite(exact) || std::abs(exponent) > 22) return exact;
  const double power = std::pow(10.0, std::abs(exponent));
  const double size = exponent < 0 ? static_cast<double>(digits) / power : static_cast<double>(digits) * power;
  return exact < 0 ? -size : size;
}

// As in SentencePiece: the score of an unknown character is the lowest score minus this.
constexpr double kUnknownPenalty = 10;

class Unigram final : public TokenModel {
 public:
  explicit Unigram(const nlohmann::json& j) {
    byte_fallback_ = j.value("byte_fallback", false);
    if (j.contains("unk_id") && j["unk_id"].is_number_integer()) unknown_ = j["unk_id"].get<int32_t>();
    const nlohmann::json& vocab = j.at("vocab");
    ids_.reserve(vocab.size());
    double least = std::numeric_limits<double>::infinity();
    for (const auto& one : vocab) {
      ids_.insert_or_assign(one.at(0).get<std::string>(), static_cast<int32_t>(scores_.size()));
      scores_.push_back(read_score(one.at(1).get<double>()));
      least = std::min(least, scores_.back());
    }
    if (scores_.empty()) fail(Exit::data, "E_TOKENIZER", "the tokenizer's vocabulary is empty");
    if (unknown_ >= static_cast<int32_t>(scores_.size()))
      fail(Exit::data, "E_TOKENIZER", cat("unk_id ", unknown_, " is not one of the ", scores_.size(), " tokens"));
    unknown_score_ = least - kUnknownPenalty;
    if (unknown_ >= 0) unknown_token_ = vocab.at(static_cast<size_t>(unknown_)).at(0).get<std::string>();
    std::vector<std::pair<std::string_view, int32_t>> tokens;
    tokens.reserve(ids_.size());
    for (const auto& [token, id] : ids_) {
      if (!token.empty()) tokens.emplace_back(token, id);
    }
    trie_ = std::make_unique<Trie>(std::move(tokens));
    if (byte_fallback_) {
      for (int b = 0; b < 256; ++b) byte_ids_[b] = find(fallback_token(static_cast<unsigned char>(b)));
    }
  }

  void cut(std::string_view part, std::vector<ModelToken>& out) const override {
    if (cache_.find(part, out)) return;
    const size_t before = out.size();
    best_path(part, out);
    cache_.keep(part, out.data() + before, out.data() + out.size());
  }

  const TokenIds& vocabulary() const override { return ids_; }
  std::string unknown() const override { return unknown_token_; }

 private:
  struct Step {
    double score = 0;
    int32_t from = -1;
    int32_t id = -1;
  };

  int32_t find(std::string_view token) const {
    const auto it = ids_.find(token);
    return it == ids_.end() ? -1 : it->second;
  }

  void best_path(std::string_view part, std::vector<ModelToken>& out) const {
    std::vector<Step> best(part.size() + 1);
    for (size_t at = 0; at < part.size();) {
      const double here = best[at].score;
      const auto one = static_cast<size_t>(std::max(decode_utf8(part, at).bytes, 1));
      bool known = false;
      const auto offer = [&](size_t length, double score, int32_t id) {
        Step& s = best[at + length];
        if (s.from < 0 || score > s.score) s = {score, static_cast<int32_t>(at), id};
      };
      trie_->prefixes(part.substr(at), [&](size_t length, int32_t id) {
        offer(length, scores_[static_cast<size_t>(id)] + here, id);
        known |= length == one;
      });
      if (!known) {
        if (unknown_ < 0)
          fail(Exit::data, "E_TOKENIZER",
               "the text holds a character that the tokenizer's vocabulary lacks, and it has no unk_id");
        offer(one, unknown_score_ + here, unknown_);
      }
      at += one;
    }
    // Reads the path backwards; adjacent unknown tokens become one.
    std::vector<ModelToken> path;
    for (size_t end = part.size(); end > 0;) {
      const Step& s = best[end];
      const auto begin = static_cast<uint32_t>(s.from);
      if (s.id == unknown_ && !path.empty() && path.back().id == unknown_ && unknown_ >= 0)
        path.back().begin = begin;
      else
        path.push_back({s.id, begin, static_cast<uint32_t>(end)});
      end = begin;
    }
    for (size_t i = path.size(); i-- > 0;) put(part, path[i], out);
  }

  void put(std::string_view part, ModelToken t, std::vector<ModelToken>& out) const {
    if (t.id != unknown_) return out.push_back(t);
    const std::string_view text = part.substr(t.begin, t.end - t.begin);
    if (const int32_t id = find(text); id >= 0) {
      t.id = id;
      return out.push_back(t);
    }
    const bool bytes = byte_fallback_ && std::all_of(text.begin(), text.end(), [&](char c) {
                         return byte_ids_[static_cast<unsigned char>(c)] >= 0;
                       });
    if (!bytes) return out.push_back(t);
    for (const char c : text) out.push_back({byte_ids_[static_cast<unsigned char>(c)], t.begin, t.end});
  }

  TokenIds ids_;
  std::vector<double> scores_;
  std::unique_ptr<Trie> trie_;
  double unknown_score_ = 0;
  int32_t unknown_ = -1;
  std::string unknown_token_;
  bool byte_fallback_ = false;
  int32_t byte_ids_[256] = {};
  CutCache cache_;
};

const TokenModelRegistration unigram_row{{
    .name = "Unigram",
    .is_one = [](const nlohmann::json& j) { return j.contains("vocab") && j["vocab"].is_array(); },
    .read = [](const nlohmann::json& j) -> std::unique_ptr<TokenModel> { return std::make_unique<Unigram>(j); },
}};

}  // namespace

}  // namespace amp
