// Finds added tokens in text, as Hugging Face's AddedVocabulary does: leftmost, then longest. Tokens are grouped by
// their first byte, so that find_first_of skips text without candidates.
#include "data/tokenizers/added_tokens.h"

#include <algorithm>

#include "base/utf8.h"
#include "data/tokenizers/regex.h"
#include "data/tokenizers/tokenizer_json.h"

namespace amp {

namespace {

uint32_t first_of(std::string_view text) { return decode_utf8(text, 0).value; }
size_t last_char(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0u) == 0x80u) --at;
  return at;
}

bool is_word(std::string_view character) {
  static const Regex word(R"(\w)");
  std::vector<Match> found;
  word.find_all(character, found);
  return !found.empty() && found[0].is_match;
}

size_t spaces_before(std::string_view text) {  // returns the index at which the trailing spaces begin
  size_t end = text.size();
  while (end > 0) {
    const size_t at = last_char(text.substr(0, end));
    if (!is_space(first_of(text.substr(at)))) break;
    end = at;
  }
  return end;
}

size_t spaces_after(std::string_view text) {  // returns the number of bytes of the leading spaces
  size_t at = 0;
  while (at < text.size()) {
    const CodePoint c = decode_utf8(text, at);
    if (!is_space(c.value)) break;
    at += static_cast<size_t>(c.bytes);
  }
  return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const TextStep& normalizer) : tokens_(std::move(tokens)) {
  plain_.texts.resize(tokens_.size());
  normalized_.texts.resize(tokens_.size());
  for (size_t i = 0; i < tokens_.size(); ++i) {
    std::string text = tokens_[i].content;
    if (tokens_[i].normalized && normalizer) {
      NormalizedString t(text, 0);
      normalizer(t);
      text = t.text;
    }
    if (text.empty()) continue;
    Set& set = tokens_[i].normalized ? normalized_ : plain_;
    set.by_first[static_cast<unsigned char>(text[0])].push_back(i);
    set.texts[i] = text;
  }
  for (Set* const set : {&plain_, &normalized_}) {
    for (auto& [first, indices] : set->by_first) {
      set->firsts += static_cast<char>(first);
      std::stable_sort(indices.begin(), indices.end(),
                       [&](size_t a, size_t b) { return set->texts[a].size() > set->texts[b].size(); });
    }
  }
}

const std::string& AddedTokens::looked_for(size_t i) const {
  const std::string& text = (tokens_[i].normalized ? normalized_ : plain_).texts[i];
  return text.empty() ? tokens_[i].content : text;
}

void AddedTokens::find(const Set& set, std::string_view text, std::vector<Split>& out) const {
  size_t last = 0, at = 0;
  while ((at = text.find_first_of(set.firsts, at)) != std::string_view::npos) {
    const AddedToken* token = nullptr;
    size_t begin = at, end = at;
    for (const size_t i : set.by_first.at(static_cast<unsigned char>(text[at]))) {
      if (text.substr(at, set.texts[i].size()) != set.texts[i]) continue;
      token = &tokens_[i];
      end = at + set.texts[i].size();
      break;
    }
    if (!token) {
      ++at;
      continue;
    }
    at = end;
    if (token->single_word) {
      const bool inside =
          (begin > 0 && is_word(text.substr(last_char(text.substr(0, begin)), begin))) ||
          (end < text.size() && is_word(text.substr(end, static_cast<size_t>(decode_utf8(text, end).bytes))));
      if (inside) continue;
    }
    if (token->lstrip) begin = std::max(spaces_before(text.substr(0, begin)), last);
    if (token->rstrip) end += spaces_after(text.substr(end));
    if (begin > last) out.push_back({static_cast<uint32_t>(last), static_cast<uint32_t>(begin), -1});
    out.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end), token->id});
    last = end;
    at = std::max(at, end);
  }
  if (last < text.size()) out.push_back({static_cast<uint32_t>(last), static_cast<uint32_t>(text.size()), -1});
}

void AddedTokens::split(NormalizedString& t, bool normalized) const {
  const Set& set = normalized ? normalized_ : plain_;
  if (set.by_first.empty()) return;
  std::vector<Split> out, found;
  for (const Split& s : t.splits) {
    if (s.id >= 0) {
      out.push_back(s);
      continue;
    }
    found.clear();
    find(set, t.at(s), found);
    for (const Split& f : found) out.push_back({s.begin + f.begin, s.begin + f.end, f.id});
  }
  t.splits = std::move(out);
}

}  // namespace amp
