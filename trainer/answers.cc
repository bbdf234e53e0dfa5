#include "trainer/answers.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/text.h"
#include "data/tokenizers/bert_unicode.h"
#include "data/utf8.h"

namespace amp {

namespace {

// At spaces: those that Python's str.split knows and that a text may hold.
std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> out;
  bool open = false;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    const bool space = c.value == ' ' || (c.value >= 0x09 && c.value <= 0x0d) || (c.value >= 0x1c && c.value <= 0x1f) ||
                       c.value == 0x85 || c.value == 0xa0 || c.value == 0x1680 ||
                       (c.value >= 0x2000 && c.value <= 0x200a) || c.value == 0x2028 || c.value == 0x2029 ||
                       c.value == 0x202f || c.value == 0x205f || c.value == 0x3000;
    if (!space) {
      if (!open) out.emplace_back();
      out.back().append(text, at, static_cast<size_t>(std::max(1, c.bytes)));
    }
    open = !space;
    at += static_cast<size_t>(std::max(1, c.bytes));
  }
  return out;
}

// Python's \w but for symbols beyond ASCII, which count as letters here.
bool word_character(uint32_t c) {
  if (c < 0x80) return c == '_' || std::isalnum(static_cast<int>(c));
  return char_class(c) != CharClass::punctuation && char_class(c) != CharClass::space;
}

// An article between characters of no word becomes a space.
std::u32string without_articles(const std::u32string& text) {
  std::u32string out;
  for (size_t at = 0; at < text.size();) {
    const bool begins = at == 0 || !word_character(text[at - 1]);
    size_t n = 0;
    for (const std::u32string_view article : {U"a", U"an", U"the"}) {
      const size_t end = at + article.size();
      const bool ends = end >= text.size() || !word_character(text[end]);
      if (begins && ends && text.compare(at, article.size(), article) == 0) n = article.size();
    }
    out += n ? U' ' : text[at];
    at += std::max<size_t>(n, 1);
  }
  return out;
}

}  // namespace

std::string normalize_answer(const std::string& text) {
  std::u32string lower;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    at += static_cast<size_t>(std::max(1, c.bytes));
    if (c.value < 0x80 && std::ispunct(static_cast<int>(c.value))) continue;
    lower += static_cast<char32_t>(lower_case(c.value));
  }
  std::string out;
  for (const char32_t c : without_articles(lower)) append_utf8(out, c);
  return join(words(out), " ");
}

double answer_f1(const std::string& predicted, const std::string& wanted) {
  std::vector<std::string> p = words(normalize_answer(predicted)), w = words(normalize_answer(wanted)), both;
  std::sort(p.begin(), p.end());
  std::sort(w.begin(), w.end());
  std::set_intersection(p.begin(), p.end(), w.begin(), w.end(), std::back_inserter(both));
  if (both.empty()) return 0;
  const double n = static_cast<double>(both.size());
  const double precision = n / static_cast<double>(p.size()), recall = n / static_cast<double>(w.size());
  return 2 * precision * recall / (precision + recall);
}

void AnswerSearch::add(std::span<const float> start, std::span<const float> end, std::span<const int64_t> samples) {
  const size_t tokens = samples.empty() ? 0 : start.size() / samples.size();
  for (size_t r = 0; r < samples.size(); ++r) {
    const AnswerKey::Window& w = key_.windows.at(static_cast<size_t>(samples[r]));
    const auto stop = std::min(w.first + static_cast<int64_t>(w.parts.size()), static_cast<int64_t>(tokens));
    const float *s = start.data() + r * tokens, *e = end.data() + r * tokens;
    double most = -INFINITY;
    int64_t first = -1, last = -1;
    for (int64_t i = w.first; i < stop; ++i) {
      for (int64_t j = i; j < std::min(stop, i + longest_); ++j) {
        const double score = static_cast<double>(s[i]) + e[j];
        if (!(score > most)) continue;
        most = score;
        first = i;
        last = j;
      }
    }
    const auto [at, fresh] = best_.try_emplace(w.question);
    if (first < 0 || (!fresh && !at->second.text.empty() && most <= at->second.score)) continue;
    const auto place = key_.place(samples[r], first, last).value();
    at->second = {most, key_.text(samples[r], first, last), place.first, place.second};
  }
}

template <class F>
double AnswerScores::mean(F&& score) const {
  double sum = 0;
  for (const auto& [question, best] : search_.best()) {
    double most = 0;
    for (const Answer& a : search_.key().questions[question].answers) most = std::max(most, score(best.text, a.text));
    sum += most;
  }
  return sum / std::max(1.0, static_cast<double>(search_.best().size()));
}

double AnswerScores::exact_match() const {
  return mean([](const std::string& p, const std::string& w) {
    return normalize_answer(p) == normalize_answer(w) ? 1.0 : 0.0;
  });
}
double AnswerScores::f1() const { return mean(answer_f1); }

}  // namespace amp
