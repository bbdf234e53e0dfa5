// Implements class_names.h: finds the class that a label of the data means. Every reader of labels uses LabelIndex. So
// only this file decides which texts mean the same class.
#include "data/class_names.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>

#include "base/error.h"
#include "base/number_text.h"
#include "base/text.h"

namespace amp {

namespace {

constexpr size_t npos = std::string_view::npos;

// Returns the text in lower case with runs of blanks replaced by one blank. An '_' or '-' between words counts as a
// blank; the signs in "-1" and "A-" stay.
std::string folded(std::string_view text) {
  const std::string lower = lower_case(trimmed(text));
  const auto in_word = [&](size_t at) {
    return at < lower.size() && std::string_view(" \t_-").find(lower[at]) == npos;
  };
  std::string out;
  for (size_t i = 0; i < lower.size(); ++i) {
    const char c = lower[i];
    const bool blank = c == ' ' || c == '\t' || ((c == '_' || c == '-') && i > 0 && in_word(i - 1) && in_word(i + 1));
    if (!blank) out += c;
    if (blank && !out.ends_with(' ')) out += ' ';
  }
  return out;
}

std::optional<double> plain_number(std::string_view text) {
  double v = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(v)) return std::nullopt;
  return v;
}

bool digit(char c) { return c >= '0' && c <= '9'; }

// Returns whether a comes before b in natural order. Compares runs of digits as numbers of any length, and all other
// characters by their bytes.
bool naturally_less(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!digit(a[i]) || !digit(b[j])) {
      const auto x = static_cast<unsigned char>(a[i++]), y = static_cast<unsigned char>(b[j++]);
      if (x != y) return x < y;
      continue;
    }
    const auto run = [](std::string_view s, size_t& at) {
      while (at < s.size() && s[at] == '0') ++at;
      const size_t begin = at;
      while (at < s.size() && digit(s[at])) ++at;
      return s.substr(begin, at - begin);
    };
    const std::string_view x = run(a, i), y = run(b, j);
    if (x != y) return std::pair(x.size(), x) < std::pair(y.size(), y);
  }
  if (i < a.size() || j < b.size()) return i >= a.size();
  return a < b;  // equal but for leading zeros: "01" and "1"
}

}  // namespace

std::optional<int64_t> whole_number(std::string_view label) {
  label = trimmed(label);
  if (label.starts_with("LABEL_")) {
    label.remove_prefix(6);
    if (label.empty() || !digit(label[0])) return std::nullopt;
  }
  const std::optional<double> v = plain_number(label);
  const bool plain = std::all_of(label.begin(), label.end(), [](char c) { return digit(c) || c == '.' || c == '-'; });
  if (!v || !plain || *v != std::floor(*v) || std::abs(*v) > 1e15) return std::nullopt;
  return static_cast<int64_t>(*v);
}

void sort_naturally(std::vector<std::string>& labels) {
  std::vector<std::pair<double, std::string>> numbers;
  for (const std::string& label : labels) {
    const std::optional<int64_t> whole = whole_number(label);  // also accepts LABEL_3
    const std::optional<double> v = whole ? static_cast<double>(*whole) : plain_number(label);
    if (!v) break;
    numbers.emplace_back(*v, label);
  }
  if (numbers.size() < labels.size()) return std::sort(labels.begin(), labels.end(), naturally_less);
  std::sort(numbers.begin(), numbers.end());
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = std::move(numbers[i].second);
}

LabelIndex::LabelIndex(const ClassNames& classes) {
  const auto add = [](auto& map, const auto& key, int64_t id) {
    const auto [at, fresh] = map.emplace(key, id);
    if (!fresh && at->second != id) at->second = kAmbiguous;
  };
  for (size_t i = 0; i < classes.size(); ++i) {
    const auto id = static_cast<int64_t>(i);
    add(names_, classes[i], id);
    add(spellings_, folded(classes[i]), id);
    if (const auto number = whole_number(classes[i])) add(numbers_, *number, id);
  }
  two_ = classes.size() == 2;
  if (classes.of_model && numbers_.empty()) ids_ = static_cast<int64_t>(classes.size());
}

std::optional<int64_t> LabelIndex::numbered(std::string_view label) const {
  std::optional<int64_t> number = whole_number(label);
  const std::string word = !number && two_ ? folded(label) : std::string();
  if (word == "false" || word == "true") number = word == "true";
  if (!number) return std::nullopt;
  if (const auto at = numbers_.find(*number); at != numbers_.end()) return at->second;
  if (*number >= 0 && *number < ids_) return *number;
  return std::nullopt;
}

std::optional<LabelIndex::Match> LabelIndex::find(std::string_view label) const {
  if (const auto at = names_.find(std::string(label)); at != names_.end() && at->second != kAmbiguous)
    return Match{at->second, By::name};
  if (const auto at = spellings_.find(folded(label)); at != spellings_.end() && at->second != kAmbiguous)
    return Match{at->second, By::spelling};
  if (const auto id = numbered(label); id && *id != kAmbiguous) return Match{*id, By::number};
  return std::nullopt;
}

std::string some_of(const std::vector<std::string>& labels, size_t most) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(most, labels.size()); ++i) shown.push_back(cat("'", printable(labels[i]), "'"));
  return join(shown, ", ") + (labels.size() > most ? cat(" and ", labels.size() - most, " more") : std::string());
}

std::string describe_matches(const std::vector<std::string>& labels, const ClassNames& classes) {
  constexpr size_t kShown = 6;
  const LabelIndex index(classes);
  std::vector<std::string> pairs;
  bool numbers = false, spelling = false;
  size_t more = 0;
  for (const std::string& label : labels) {
    const auto match = index.find(label);
    if (!match || match->by == LabelIndex::By::name) continue;
    (match->by == LabelIndex::By::number ? numbers : spelling) = true;
    if (pairs.size() == kShown) {
      ++more;
      continue;
    }
    pairs.push_back(cat("'", printable(label), "' is '", printable(classes[static_cast<size_t>(match->id)]), "'"));
  }
  if (pairs.empty()) return {};
  return cat("labels are matched with the classes by ", numbers ? "number" : "", numbers && spelling ? " and " : "",
             spelling ? "spelling" : "", ": ", join(pairs, ", "), more ? cat(" and ", more, " more") : std::string());
}

}  // namespace amp
