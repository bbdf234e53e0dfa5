// Implements the pre-tokenizers of tokenizer.json: rules that split text at spaces, punctuation or patterns, and the
// byte-level and SentencePiece maps.
#include "data/tokenizers/pre_tokenizers.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "data/tokenizers/bert_unicode.h"
#include "data/tokenizers/byte_level.h"
#include "data/tokenizers/regex.h"
#include "data/tokenizers/tokenizer_json.h"
#include "data/tokenizers/unicode_forms.h"

namespace amp {

namespace {

// GPT-2's pattern, from its encoder.py.
const char* const kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

SplitRule split_rule(const std::string& name) {
  if (name == "Removed") return SplitRule::removed;
  if (name == "Isolated") return SplitRule::isolated;
  if (name == "MergedWithPrevious") return SplitRule::merged_with_previous;
  if (name == "MergedWithNext") return SplitRule::merged_with_next;
  if (name == "Contiguous") return SplitRule::contiguous;
  unknown_part("split behavior", name);
}

bool is_punctuation(uint32_t c) { return char_class(c) == CharClass::punctuation; }

TextStep pre_tokenizer_sequence(const nlohmann::json& list) {
  std::vector<TextStep> steps;
  for (const auto& one : list) {
    if (TextStep step = read_pre_tokenizer(one)) steps.push_back(std::move(step));
  }
  return [steps](NormalizedString& t) {
    for (const TextStep& s : steps) s(t);
  };
}

TextStep read_metaspace(const nlohmann::json& j) {
  const std::string scheme = j.value("prepend_scheme", j.value("add_prefix_space", true) ? "always" : "never");
  const Prepend prepend = scheme == "always" ? Prepend::always : scheme == "first" ? Prepend::first : Prepend::never;
  return metaspace(j.value("replacement", "\u2581"), prepend, j.value("split", true));
}

TextStep splitter(Finder find, SplitRule rule, bool invert = false) {
  return [=](NormalizedString& t) { split_all(t, find, rule, invert); };
}

TextStep fixed_length(uint32_t length) {
  if (length == 0) fail(Exit::data, "E_TOKENIZER", "the tokenizer's pre_tokenizer 'FixedLength' has the length 0");
  const Finder find = [length](std::string_view text, std::vector<Match>& out) {
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      for (uint32_t n = 0; n < length && at < text.size(); ++n) at += static_cast<size_t>(decode_utf8(text, at).bytes);
      out.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(at), true});
    }
  };
  return splitter(find, SplitRule::isolated);
}

// Replaces bytes by byte-level characters, which keep the bytes' places, and adjusts the splits.
void to_level(NormalizedString& t) {
  NormalizedString out;
  out.origin = t.origin;
  out.text.reserve(t.text.size() * 5 / 4);
  out.from.reserve(t.text.size() * 5 / 4);
  for (const Split& s : t.splits) {
    const auto begin = static_cast<uint32_t>(out.text.size());
    for (uint32_t i = s.begin; i < s.end; ++i) {
      if (s.id >= 0)
        out.append_bytes(std::string_view(t.text).substr(i, 1), t.from[i]);
      else
        out.append_bytes(kByteLevel[static_cast<unsigned char>(t.text[i])], t.from[i]);
    }
    out.splits.push_back({begin, static_cast<uint32_t>(out.text.size()), s.id});
  }
  t = std::move(out);
}

}  // namespace

TextStep metaspace(const std::string& replacement, Prepend prepend, bool split) {
  const Finder space = find_string(" "), mark = find_string(replacement);
  return [=](NormalizedString& t) {
    remake_all(t, [&](NormalizedString& part) {
      const uint32_t begin = part.from.empty() ? part.origin : part.from.front().begin;
      replace_all(part, space, replacement);
      const bool wanted = prepend == Prepend::always || (prepend == Prepend::first && begin == 0);
      if (wanted && !part.text.starts_with(replacement)) part.prepend(replacement);
    });
    if (split) split_all(t, mark, SplitRule::merged_with_next);
  };
}

TextStep byte_level(bool add_prefix_space, bool use_regex) {
  const Finder words = use_regex ? Regex(kGpt2).finder() : Finder();
  return [=](NormalizedString& t) {
    if (add_prefix_space) {
      remake_all(t, [](NormalizedString& part) {
        if (!part.text.starts_with(' ')) part.prepend(" ");
      });
    }
    if (words) split_all(t, words, SplitRule::isolated);
    to_level(t);
  };
}

TextStep read_pre_tokenizer(const nlohmann::json& j) {
  if (j.is_null()) return {};
  const std::string type = j.at("type");
  if (type == "Sequence") return pre_tokenizer_sequence(j.at("pretokenizers"));
  if (type == "ByteLevel") return byte_level(j.value("add_prefix_space", true), j.value("use_regex", true));
  if (type == "Metaspace") return read_metaspace(j);
  if (type == "Split")
    return splitter(read_pattern(j.at("pattern")), split_rule(j.at("behavior")), j.value("invert", false));
  if (type == "Whitespace") return splitter(Regex(R"(\w+|[^\w\s]+)").finder(), SplitRule::removed, true);
  if (type == "WhitespaceSplit") return splitter(find_char(is_space), SplitRule::removed);
  if (type == "BertPreTokenizer") {
    return [](NormalizedString& t) {
      split_all(t, find_char(is_space), SplitRule::removed);
      split_all(t, find_char(is_punctuation), SplitRule::isolated);
    };
  }
  if (type == "Punctuation") return splitter(find_char(is_punctuation), split_rule(j.value("behavior", "Isolated")));
  if (type == "Digits")
    return splitter(find_char(is_numeric),
                    j.value("individual_digits", false) ? SplitRule::isolated : SplitRule::contiguous);
  if (type == "CharDelimiterSplit") return splitter(find_string(j.at("delimiter")), SplitRule::removed);
  if (type == "FixedLength") return fixed_length(j.value("length", 5u));
  unknown_part("pre_tokenizer", type);
}

}  // namespace amp
