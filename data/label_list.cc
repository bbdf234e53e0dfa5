// Implements label_list.h: reads lists of class names in JSON, as Python literals, or as plain text. Metadata of ONNX
// files contain all of these; ultralytics writes {0: 'person', 1: 'bicycle'}.
#include "data/label_list.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/text.h"

namespace amp {

namespace {

// Key and value of each element of a literal. If the literal is a list, the keys are not used.
using Pairs = std::vector<std::pair<std::string, std::string>>;

std::optional<size_t> id_of(const std::string& text) {
  size_t id = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return id;
}

// Returns names in the order of their ids, if these are 0 to n-1 and each occurs once; otherwise an empty vector.
std::vector<std::string> by_id(const Pairs& pairs, bool key_is_id) {
  std::vector<std::string> out(pairs.size());
  std::vector<char> seen(pairs.size());
  for (const auto& [key, value] : pairs) {
    const std::optional<size_t> id = id_of(key_is_id ? key : value);
    if (!id || *id >= pairs.size() || seen[*id]) return {};
    seen[*id] = 1;
    out[*id] = key_is_id ? value : key;
  }
  return out;
}

std::vector<std::string> names_of(const Pairs& pairs, bool keys) {
  if (keys) {
    std::vector<std::string> names = by_id(pairs, true);
    return names.empty() ? by_id(pairs, false) : names;
  }
  std::vector<std::string> out;
  for (const auto& [none, value] : pairs) out.push_back(value);
  return out;
}

std::optional<std::string> json_scalar(const nlohmann::json& j) {
  if (j.is_string()) return j.get<std::string>();
  if (j.is_number() || j.is_boolean()) return j.dump();
  return std::nullopt;
}

std::vector<std::string> names_in_json(const nlohmann::json& j) {
  Pairs pairs;
  if (!j.is_structured()) return {};
  for (const auto& [key, value] : j.items()) {
    const std::optional<std::string> text = json_scalar(value);
    if (!text) return {};
    pairs.emplace_back(key, *text);
  }
  return names_of(pairs, j.is_object());
}

class PythonLiteral {
 public:
  explicit PythonLiteral(std::string_view text) : text_(text) {}

  std::vector<std::string> names() {
    const char open = next();
    const char close = open == '[' ? ']' : open == '(' ? ')' : open == '{' ? '}' : '\0';
    Pairs pairs;
    bool keys = false;
    for (skip(); close && at_ < text_.size() && text_[at_] != close; skip()) {
      std::optional<std::string> value = scalar();
      std::string key;
      skip();
      if (value && open == '{' && at_ < text_.size() && text_[at_] == ':') {
        ++at_;
        keys = true;
        key = std::exchange(value, scalar()).value();
        skip();
      }
      if (!value || keys != (open == '{')) return {};
      pairs.emplace_back(key, *value);
      if (at_ < text_.size() && text_[at_] == ',') {
        ++at_;
      } else if (at_ >= text_.size() || text_[at_] != close) {
        return {};
      }
    }
    if (!close || next() != close || next() != '\0') return {};
    return names_of(pairs, keys);
  }

 private:
  void skip() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  char next() {
    skip();
    return at_ < text_.size() ? text_[at_++] : '\0';
  }

  std::optional<std::string> scalar() {
    skip();
    if (at_ >= text_.size()) return std::nullopt;
    if (text_[at_] == '\'' || text_[at_] == '"') return quoted(text_[at_++]);
    const size_t end = std::min(text_.find_first_of(",:]})[{(\"'", at_), text_.size());
    const std::string_view word = trimmed(text_.substr(at_, end - at_));
    at_ = end;
    if (word.empty() || word == "None") return std::nullopt;
    return std::string(word);
  }

  std::optional<std::string> quoted(char quote) {
    std::string out;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] != '\\') {
        out += text_[at_++];
        continue;
      }
      if (at_ + 1 >= text_.size()) return std::nullopt;
      const char c = text_[at_ + 1];
      if (c != '\\' && c != '\'' && c != '"') return std::nullopt;  // names have no control characters
      out += c;
      at_ += 2;
    }
    if (at_ >= text_.size()) return std::nullopt;
    ++at_;
    return out;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::vector<std::string> parse_label_literal(std::string_view text) {
  const nlohmann::json j = nlohmann::json::parse(text, nullptr, false);
  return j.is_discarded() ? PythonLiteral(text).names() : names_in_json(j);
}

std::vector<std::string> parse_label_list(std::string_view text) {
  std::vector<std::string> names = parse_label_literal(text);
  if (!names.empty()) return names;
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  const bool lines = text.find('\n') != std::string_view::npos;
  for (const std::string& part : split(text, lines ? '\n' : ',')) {
    std::string_view name = part;
    if (name.ends_with('\r')) name.remove_suffix(1);
    names.emplace_back(trimmed(name));
  }
  while (!names.empty() && names.back().empty()) names.pop_back();
  const bool gap = std::any_of(names.begin(), names.end(), [](const std::string& n) { return n.empty(); });
  return gap ? std::vector<std::string>() : names;
}

}  // namespace amp
