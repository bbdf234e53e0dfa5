// Implements SentencePiece's compiled normalization: a double-array trie (Darts) of sources, and the texts that replace
// them. The algorithm and the attribution of changes to characters follow Hugging Face's spm_precompiled.
#include <utf8proc.h>

#include <cstring>

#include "base/error.h"
#include "base/utf8.h"
#include "data/tokenizers/normalizers.h"
#include "data/tokenizers/tokenizer_json.h"

namespace amp {

namespace {

class CharsMap {
 public:
  explicit CharsMap(const std::string& bytes) {
    uint32_t size = 0;
    const bool whole =
        bytes.size() >= 4 && (std::memcpy(&size, bytes.data(), 4), size <= bytes.size() - 4) && size % 4 == 0;
    if (!whole)
      fail(Exit::data, "E_TOKENIZER", "the tokenizer's precompiled_charsmap is cut off", "fetch the file again");
    units_.resize(size / 4);
    std::memcpy(units_.data(), bytes.data() + 4, size);
    texts_ = bytes.substr(4 + size);
  }

  // Finds the shortest prefix of the text that has a replacement. Returns false if there is no such prefix.
  bool find(std::string_view text, std::string_view& out) const {
    if (units_.empty()) return false;
    size_t node = offset(units_[0]);
    for (const char ch : text) {
      const auto c = static_cast<unsigned char>(ch);
      if (c == 0) return false;
      node ^= c;
      if (node >= units_.size() || (units_[node] & 0x800000ffu) != c) return false;
      const uint32_t unit = units_[node];
      node ^= offset(unit);
      if ((unit >> 8 & 1u) == 0) continue;
      const uint32_t at = node < units_.size() ? units_[node] & 0x7fffffffu : UINT32_MAX;
      if (at >= texts_.size()) return false;
      out = std::string_view(texts_).substr(at, std::strlen(texts_.c_str() + at));
      return true;
    }
    return false;
  }

 private:
  static uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & 0x200u) >> 6); }
  std::vector<uint32_t> units_;
  std::string texts_;
};

void put(std::vector<Change>& out, std::string_view old_part, std::string_view new_part) {
  const auto change = static_cast<int>(count_code_points(new_part) - count_code_points(old_part));
  for (size_t at = 0; at < new_part.size();) {
    const CodePoint c = decode_utf8(new_part, at);
    at += static_cast<size_t>(std::max(c.bytes, 1));
    out.push_back({c.value, 0});
  }
  for (size_t i = 0; change > 0 && i < static_cast<size_t>(change) && i < out.size(); ++i)
    out[out.size() - 1 - i].change = 1;
  if (change < 0 && !out.empty()) out.back().change += change;
}

void put_plain(std::vector<Change>& out, const CharsMap& map, std::string_view part, bool& changed) {
  for (size_t at = 0; at < part.size();) {
    const CodePoint c = decode_utf8(part, at);
    const std::string_view own = part.substr(at, static_cast<size_t>(c.bytes));
    at += own.size();
    std::string_view text;
    if (map.find(own, text)) {
      changed = true;
      put(out, own, text);
    } else {
      out.push_back({c.value, 0});
    }
  }
}

// Replaces one grapheme after another. A grapheme of less than six bytes is first looked up as a whole.
void apply(const CharsMap& map, NormalizedString& t) {
  std::vector<Change> changes;
  changes.reserve(t.text.size());
  bool changed = false;
  for (size_t at = 0; at < t.text.size();) {
    size_t end = at;
    utf8proc_int32_t state = 0;
    CodePoint last = decode_utf8(t.text, at);
    end += static_cast<size_t>(last.bytes);
    while (end < t.text.size()) {
      if (last.value < 0x80 && last.value != '\r' && static_cast<unsigned char>(t.text[end]) < 0x80) break;
      const CodePoint next = decode_utf8(t.text, end);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.value),
                                           static_cast<utf8proc_int32_t>(next.value), &state))
        break;
      end += static_cast<size_t>(next.bytes);
      last = next;
    }
    const std::string_view grapheme = std::string_view(t.text).substr(at, end - at);
    at = end;
    std::string_view text;
    if (grapheme.size() < 6 && map.find(grapheme, text)) {
      changed = true;
      put(changes, grapheme, text);
    } else {
      put_plain(changes, map, grapheme, changed);
    }
  }
  if (changed) t.change(changes);
}

}  // namespace

TextStep precompiled_step(const std::string& charsmap) {
  if (charsmap.empty()) return {};
  return [map = CharsMap(charsmap)](NormalizedString& t) { apply(map, t); };
}

}  // namespace amp
