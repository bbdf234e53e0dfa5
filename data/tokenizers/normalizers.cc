// Implements the normalizers of tokenizer.json. Each step changes the text of a NormalizedString and keeps the map from
// its bytes to places in the original text.
#include "data/tokenizers/normalizers.h"

#include <algorithm>
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

void map_chars(NormalizedString& t, const std::function<void(uint32_t, std::vector<uint32_t>&)>& f) {
  std::string text;
  std::vector<TextPlace> from;
  text.reserve(t.text.size());
  from.reserve(t.text.size());
  std::vector<uint32_t> made;
  for (size_t at = 0; at < t.text.size();) {
    const CodePoint c = decode_utf8(t.text, at);
    made.clear();
    f(c.value, made);
    for (const uint32_t m : made) append_utf8(text, m);
    from.resize(text.size(), t.from[at]);
    at += static_cast<size_t>(c.bytes);
  }
  t.text = std::move(text);
  t.from = std::move(from);
}

namespace {

bool is_ascii(const std::string& s) {
  return std::all_of(s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

void lowercase(NormalizedString& t) {
  if (is_ascii(t.text)) {
    for (char& c : t.text) c = static_cast<char>(lower_case(static_cast<unsigned char>(c)));
    return;
  }
  map_chars(t, [](uint32_t c, std::vector<uint32_t>& out) {
    if (c == 0x130)  // the only letter whose lower case is two characters
      out = {'i', 0x307};
    else
      out = {lower_case(c)};
  });
}

void keep_if(NormalizedString& t, bool (*keep)(uint32_t)) {
  map_chars(t, [keep](uint32_t c, std::vector<uint32_t>& out) {
    if (keep(c)) out = {c};
  });
}

TextStep bert_normalizer(const nlohmann::json& j) {
  const bool clean = j.value("clean_text", true), ideographs = j.value("handle_chinese_chars", true),
             lower = j.value("lowercase", true);
  const bool strip =
      j.contains("strip_accents") && j["strip_accents"].is_boolean() ? j["strip_accents"].get<bool>() : lower;
  return [=](NormalizedString& t) {
    const bool ascii = is_ascii(t.text);
    if (clean) {
      map_chars(t, [](uint32_t c, std::vector<uint32_t>& out) {
        const CharClass k = char_class(c);
        if (k != CharClass::removed) out = {k == CharClass::space ? ' ' : c};
      });
    }
    if (ideographs && !ascii) {
      map_chars(t, [](uint32_t c, std::vector<uint32_t>& out) {
        if (char_class(c) == CharClass::ideograph)
          out = {' ', c, ' '};
        else
          out = {c};
      });
    }
    if (strip && !ascii) {
      normalize_form(t, UnicodeForm::nfd);
      keep_if(t, [](uint32_t c) { return char_class(c) != CharClass::mark; });
    }
    if (lower) lowercase(t);
  };
}

// SentencePiece's "nmt" normalization: removes control characters and replaces special spaces by ' '.
void nmt(NormalizedString& t) {
  map_chars(t, [](uint32_t c, std::vector<uint32_t>& out) {
    if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f) return;
    const bool space = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                       c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
    out = {space ? ' ' : c};
  });
}

TextStep strip_step(bool left, bool right) {
  return [=](NormalizedString& t) {
    size_t begin = 0, end = t.text.size();
    for (size_t at = 0; left && at < t.text.size();) {
      const CodePoint c = decode_utf8(t.text, at);
      if (!is_space(c.value)) break;
      begin = at += static_cast<size_t>(c.bytes);
    }
    while (right && end > begin) {
      size_t at = end - 1;
      while ((static_cast<unsigned char>(t.text[at]) & 0xc0u) == 0x80u) --at;
      if (!is_space(decode_utf8(t.text, at).value)) break;
      end = at;
    }
    t.text = t.text.substr(begin, end - begin);
    t.from = {t.from.begin() + static_cast<std::ptrdiff_t>(begin), t.from.begin() + static_cast<std::ptrdiff_t>(end)};
  };
}

void bytes_to_level(NormalizedString& t) {
  NormalizedString out;
  for (size_t i = 0; i < t.text.size(); ++i)
    out.append_bytes(kByteLevel[static_cast<unsigned char>(t.text[i])], t.from[i]);
  t.text = std::move(out.text);
  t.from = std::move(out.from);
}

TextStep normalizer_sequence(const nlohmann::json& list) {
  std::vector<TextStep> steps;
  for (const auto& one : list) {
    if (TextStep step = read_normalizer(one)) steps.push_back(std::move(step));
  }
  return [steps](NormalizedString& t) {
    for (const TextStep& s : steps) s(t);
  };
}

}  // namespace

bool is_space(uint32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

Finder read_pattern(const nlohmann::json& j) {
  if (j.is_string()) return find_string(j.get<std::string>());
  if (j.contains("String")) return find_string(j.at("String").get<std::string>());
  return Regex(j.at("Regex").get<std::string>()).finder();
}

TextStep read_normalizer(const nlohmann::json& j) {
  if (j.is_null()) return {};
  const std::string type = j.at("type");
  const auto form = [](UnicodeForm f) { return [f](NormalizedString& t) { normalize_form(t, f); }; };
  if (type == "Sequence") return normalizer_sequence(j.at("normalizers"));
  if (type == "NFC") return form(UnicodeForm::nfc);
  if (type == "NFD") return form(UnicodeForm::nfd);
  if (type == "NFKC") return form(UnicodeForm::nfkc);
  if (type == "NFKD") return form(UnicodeForm::nfkd);
  if (type == "Lowercase") return lowercase;
  if (type == "BertNormalizer") return bert_normalizer(j);
  if (type == "StripAccents")
    return [](NormalizedString& t) { keep_if(t, [](uint32_t c) { return !is_combining_mark(c); }); };
  if (type == "Strip") return strip_step(j.value("strip_left", true), j.value("strip_right", true));
  if (type == "Nmt") return nmt;
  if (type == "ByteLevel") return bytes_to_level;
  if (type == "Prepend") return [with = j.at("prepend").get<std::string>()](NormalizedString& t) { t.prepend(with); };
  if (type == "Replace") {
    return [find = read_pattern(j.at("pattern")), content = j.at("content").get<std::string>()](NormalizedString& t) {
      replace_all(t, find, content);
    };
  }
  if (type == "Precompiled") return precompiled_step(from_base64(j.value("precompiled_charsmap", "")));
  unknown_part("normalizer", type);
}

}  // namespace amp
