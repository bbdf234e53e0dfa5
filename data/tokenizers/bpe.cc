// Implements byte pair encoding (Sennrich et al. 2016, arXiv:1508.07909), on byte-level characters or with byte
// fallback. Merges are applied lowest rank first with a heap of candidates; stale candidates are skipped when they are
// popped. Results of frequent parts are cached.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "data/tokenizers/byte_level.h"
#include "data/tokenizers/model.h"

namespace amp {

namespace {

struct Merge {
  uint32_t rank = UINT32_MAX;
  int32_t id = -1;
};

// Hash table from pairs of ids to their merge: open addressing, filled once.
class MergeTable {
 public:
  void reserve(size_t n) {
    size_t size = 16;
    while (size < n * 2) size *= 2;
    slots_.assign(size, {});
  }
  void put(int32_t a, int32_t b, Merge merge) {
    Slot& s = slots_[place(key(a, b))];
    s = {key(a, b), merge};
  }
  const Merge* find(int32_t a, int32_t b) const {
    if (slots_.empty()) return nullptr;
    const Slot& s = slots_[place(key(a, b))];
    return s.key == kFree ? nullptr : &s.merge;
  }

 private:
  static constexpr uint64_t kFree = UINT64_MAX;
  struct Slot {
    uint64_t key = kFree;
    Merge merge;
  };
  static uint64_t key(int32_t a, int32_t b) {
    return static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b);
  }
  size_t place(uint64_t k) const {
    size_t at = (k * 0x9E3779B97F4A7C15u) >> 20 & (slots_.size() - 1);
    while (slots_[at].key != kFree && slots_[at].key != k) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  std::vector<Slot> slots_;
};

struct Symbol {
  int32_t id = 0;
  uint32_t bytes = 0;  // 0: the symbol was merged into the one before it
  int32_t before = -1, after = -1;
};

// A possible merge of the symbol at index `at` and the next one; ordered by lowest rank, then leftmost.
struct Candidate {
  uint32_t rank;
  int32_t at;
  int32_t id;
  bool operator<(const Candidate& o) const { return rank != o.rank ? rank > o.rank : at > o.at; }
};

class Bpe final : public TokenModel {
 public:
  explicit Bpe(const nlohmann::json& j) : ids_(read_ids(j.at("vocab"))) {
    const auto text = [&](const char* key) {
      return j.contains(key) && j[key].is_string() ? j[key].get<std::string>() : "";
    };
    unknown_ = text("unk_token");
    prefix_ = text("continuing_subword_prefix");
    suffix_ = text("end_of_word_suffix");
    fuse_unknown_ = j.value("fuse_unk", false);
    byte_fallback_ = j.value("byte_fallback", false);
    ignore_merges_ = j.value("ignore_merges", false);
    if (!unknown_.empty()) unknown_id_ = find(unknown_);
    for (const auto& [token, id] : ids_) {
      if (token.empty()) continue;
      const CodePoint c = decode_utf8(token, 0);
      if (static_cast<size_t>(c.bytes) == token.size() && c.value < characters_.size()) characters_[c.value] = id;
    }
    if (byte_fallback_) {
      for (int b = 0; b < 256; ++b) byte_ids_[b] = find(fallback_token(static_cast<unsigned char>(b)));
    }
    read_merges(j.at("merges"));
  }

  void cut(std::string_view part, std::vector<ModelToken>& out) const override {
    if (cache_.find(part, out)) return;
    const size_t before = out.size();
    if (const int32_t id = ignore_merges_ ? find(part) : -1; id >= 0) {
      out.push_back({id, 0, static_cast<uint32_t>(part.size())});
    } else {
      std::vector<Symbol> symbols = characters(part);
      merge(symbols);
      uint32_t at = 0;
      for (const Symbol& s : symbols) {
        if (s.bytes > 0) out.push_back({s.id, at, at + s.bytes});
        at += s.bytes;
      }
    }
    cache_.keep(part, out.data() + before, out.data() + out.size());
  }

  const TokenIds& vocabulary() const override { return ids_; }
  std::string unknown() const override { return unknown_; }

 private:
  int32_t find(std::string_view token) const {
    const auto it = ids_.find(token);
    return it == ids_.end() ? -1 : it->second;
  }

  void read_merges(const nlohmann::json& merges) {
    merges_.reserve(merges.size());
    uint32_t rank = 0;
    for (const auto& m : merges) {
      std::string a, b;
      if (m.is_array() && m.size() == 2) {
        a = m[0].get<std::string>();
        b = m[1].get<std::string>();
      } else {
        const std::string text = m.get<std::string>();
        const size_t space = text.find(' ');
        a = text.substr(0, space);
        b = space == std::string::npos ? "" : text.substr(space + 1);
      }
      const std::string rest = !prefix_.empty() && b.starts_with(prefix_) ? b.substr(prefix_.size()) : b;
      const int32_t first = find(a), second = find(b), made = find(a + rest);
      if (first < 0 || second < 0 || made < 0)
        fail(Exit::data, "E_TOKENIZER",
             cat("the merge ", rank + 1, " of '", printable(a), "' and '", printable(b),
                 "' has no token in the vocabulary"),
             "vocabulary and merges must be of one tokenizer");
      merges_.put(first, second, {rank++, made});
    }
  }

  // Splits the part into characters. Unknown characters become byte tokens or the unknown token, as the file's settings
  // request.
  std::vector<Symbol> characters(std::string_view part) const {
    std::vector<Symbol> out;
    out.reserve(part.size());
    const auto add = [&](int32_t id, uint32_t bytes) {
      const auto n = static_cast<int32_t>(out.size());
      if (n > 0) out.back().after = n;
      out.push_back({id, bytes, n - 1, -1});
    };
    uint32_t unknown_bytes = 0;  // bytes of an unknown token that is not yet added
    std::string key;
    for (size_t at = 0; at < part.size();) {
      const CodePoint c = decode_utf8(part, at);
      const auto n = static_cast<uint32_t>(std::max(c.bytes, 1));
      const bool first = at == 0, last = at + n >= part.size();
      std::string_view token = part.substr(at, n);
      if ((!first && !prefix_.empty()) || (last && !suffix_.empty())) {
        key = cat(first ? "" : prefix_, token, last ? suffix_ : "");
        token = key;
      }
      at += n;
      const bool alone = token.size() == n && c.value < characters_.size();
      if (const int32_t id = alone ? characters_[c.value] : find(token); id >= 0) {
        if (unknown_bytes > 0) add(unknown_id_, std::exchange(unknown_bytes, 0));
        add(id, n);
        continue;
      }
      const bool bytes = byte_fallback_ && std::all_of(token.begin(), token.end(), [&](char c) {
                           return byte_ids_[static_cast<unsigned char>(c)] >= 0;
                         });
      if (bytes) {
        for (const char c : token) add(byte_ids_[static_cast<unsigned char>(c)], 1);
      } else if (unknown_id_ >= 0) {
        if (unknown_bytes > 0 && !fuse_unknown_) add(unknown_id_, std::exchange(unknown_bytes, 0));
        unknown_bytes += n;
      }
    }
    if (unknown_bytes > 0) add(unknown_id_, unknown_bytes);
    return out;
  }

  void merge(std::vector<Symbol>& s) const {
    std::vector<Candidate> heap;
    heap.reserve(s.size());
    const auto offer = [&](int32_t a, int32_t b) {
      const Merge* const m = merges_.find(s[static_cast<size_t>(a)].id, s[static_cast<size_t>(b)].id);
      if (!m) return false;
      heap.push_back({m->rank, a, m->id});
      return true;
    };
    for (size_t i = 0; i + 1 < s.size(); ++i) offer(static_cast<int32_t>(i), static_cast<int32_t>(i + 1));
    std::make_heap(heap.begin(), heap.end());
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end());
      const Candidate top = heap.back();
      heap.pop_back();
      Symbol& left = s[static_cast<size_t>(top.at)];
      if (left.bytes == 0 || left.after < 0) continue;
      Symbol& right = s[static_cast<size_t>(left.after)];
      const Merge* const m = merges_.find(left.id, right.id);
      if (!m || m->id != top.id) continue;  // stale: one of the two symbols has changed
      left.id = top.id;
      left.bytes += right.bytes;
      right.bytes = 0;
      left.after = right.after;
      if (left.after >= 0) s[static_cast<size_t>(left.after)].before = top.at;
      if (left.before >= 0 && offer(left.before, top.at)) std::push_heap(heap.begin(), heap.end());
      if (left.after >= 0 && offer(top.at, left.after)) std::push_heap(heap.begin(), heap.end());
    }
  }

  TokenIds ids_;
  // Token of each single character, by code point; -1: none.
  std::vector<int32_t> characters_ = std::vector<int32_t>(0x10000, -1);
  MergeTable merges_;
  std::string unknown_, prefix_, suffix_;
  int32_t unknown_id_ = -1;
  bool fuse_unknown_ = false, byte_fallback_ = false, ignore_merges_ = false;
  int32_t byte_ids_[256] = {};
  CutCache cache_;
};

const TokenModelRegistration bpe_row{{
    .name = "BPE",
    .is_one = [](const nlohmann::json& j) { return j.contains("merges"); },
    .read = [](const nlohmann::json& j) -> std::unique_ptr<TokenModel> { return std::make_unique<Bpe>(j); },
}};

}  // namespace

}  // namespace amp
