// Implements the decoder steps of Hugging Face tokenizers. Steps change a list of token texts in place; their
// concatenation is the decoded text.
#include "data/tokenizers/decoders.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "data/tokenizers/byte_level.h"
#include "data/tokenizers/tokenizer_json.h"

namespace amp {

namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
    if (out.size() > kMostText)
      fail(Exit::data, "E_TOKENIZER", cat("the tokenizer's decoder makes more than ", kMostText, " bytes of ids"));
  }
  if (done > 0) text = out.append(text, done);
}

std::string cleaned(std::string text) {
  static constexpr std::array<std::pair<const char*, const char*>, 11> kDirt = {{{" .", "."},
                                                                                 {" ?", "?"},
                                                                                 {" !", "!"},
                                                                                 {" ,", ","},
                                                                                 {" ' ", "'"},
                                                                                 {" n't", "n't"},
                                                                                 {" 'm", "'m"},
                                                                                 {" do not", " don't"},
                                                                                 {" 's", "'s"},
                                                                                 {" 've", "'ve"},
                                                                                 {" 're", "'re"}}};
  for (const auto& [from, to] : kDirt) replace_all(text, from, to);
  return text;
}

const std::string kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Converts bytes to text; each maximal subpart of an ill-formed byte sequence becomes U+FFFD.
std::string lossy(const std::string& bytes) {
  std::string out;
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint c = decode_utf8(bytes, at);
    if (c.bytes > 0) {
      out.append(bytes, at, static_cast<size_t>(c.bytes));
      at += static_cast<size_t>(c.bytes);
      continue;
    }
    out += kReplacement;
    at += std::max<size_t>(1, ill_formed_length(bytes, at));
  }
  return out;
}

}  // namespace

DecodeStep word_piece_step(std::string prefix, bool cleanup) {
  return [=](std::vector<std::string>& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& t = tokens[i];
      if (i > 0) t = !prefix.empty() && t.starts_with(prefix) ? t.substr(prefix.size()) : " " + t;
      if (cleanup) t = cleaned(t);
    }
  };
}

std::string decode_word_pieces(std::vector<std::string> tokens, const std::string& prefix, bool cleanup) {
  word_piece_step(prefix, cleanup)(tokens);
  return join(tokens, "");
}

DecodeStep byte_level_step() {
  return [](std::vector<std::string>& tokens) {
    std::string bytes;
    for (const std::string& t : tokens) {
      std::string own;
      if (!bytes_of_level(t, own)) own = t;  // a token with characters that do not represent a byte is kept unchanged
      bytes += own;
    }
    tokens = {lossy(bytes)};
  };
}

DecodeStep byte_fallback_step() {
  return [](std::vector<std::string>& tokens) {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (find_invalid_utf8(bytes) == std::string::npos)
        out.push_back(bytes);
      else
        out.insert(out.end(), bytes.size(), kReplacement);
      bytes.clear();
    };
    for (const std::string& t : tokens) {
      const int byte = fallback_byte(t);
      if (byte >= 0) {
        bytes += static_cast<char>(byte);
        continue;
      }
      flush();
      out.push_back(t);
    }
    flush();
    tokens = std::move(out);
  };
}

DecodeStep metaspace_step(std::string replacement, bool prepended) {
  return [=](std::vector<std::string>& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i == 0 && prepended) {  // the marks of the first token are dropped
        replace_all(tokens[i], replacement, "");
        continue;
      }
      replace_all(tokens[i], replacement, " ");
    }
  };
}

DecodeStep suffix_step(std::string suffix) {
  return [=](std::vector<std::string>& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], suffix, i + 1 < tokens.size() ? " " : "");
  };
}

DecodeStep replace_step(std::string pattern, std::string content) {
  return [=](std::vector<std::string>& tokens) {
    for (std::string& t : tokens) replace_all(t, pattern, content);
  };
}

DecodeStep fuse_step() {
  return [](std::vector<std::string>& tokens) { tokens = {join(tokens, "")}; };
}

DecodeStep strip_step(std::string content, size_t start, size_t stop) {
  return [=](std::vector<std::string>& tokens) {
    for (std::string& t : tokens) {
      for (size_t i = 0; i < start && !content.empty() && t.starts_with(content); ++i) t.erase(0, content.size());
      for (size_t i = 0; i < stop && !content.empty() && t.ends_with(content); ++i) t.resize(t.size() - content.size());
    }
  };
}

}  // namespace amp
