// Exact match and F1 of answers to questions, as evaluate-v1.1.py and evaluate-v2.0.py of SQuAD compute them. Both
// scripts split texts like Python's str.split and compare normalized words. Python's character classes are reproduced
// for the characters that the scripts distinguish.
#include "trainer/tasks/answers.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "base/text.h"
#include "base/utf8.h"
#include "data/tokenizers/bert_unicode.h"

namespace amp {

namespace {

// Splits a text at the space characters that Python's str.split recognizes.
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

// Returns whether c matches Python's \w. Symbols beyond ASCII count as letters here.
bool word_character(uint32_t c) {
  if (c < 0x80) return c == '_' || std::isalnum(static_cast<int>(c));
  return char_class(c) != CharClass::punctuation && char_class(c) != CharClass::space;
}

// Replaces each article that is a whole word by a space.
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

std::u32string in_lower_case(const std::string& text, bool punctuation) {
  std::u32string out;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    at += static_cast<size_t>(std::max(1, c.bytes));
    if (!punctuation && c.value < 0x80 && std::ispunct(static_cast<int>(c.value))) continue;
    out += static_cast<char32_t>(lower_case(c.value));
  }
  return out;
}

std::string utf8(const std::u32string& text) {
  std::string out;
  for (const char32_t c : text) append_utf8(out, c);
  return out;
}

}  // namespace

std::string normalize_answer(const std::string& text) {
  return join(words(utf8(without_articles(in_lower_case(text, false)))), " ");
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

double answer_jaccard(const std::string& predicted, const std::string& wanted) {
  const auto set_of = [](const std::string& text) {
    const std::vector<std::string> list = words(utf8(in_lower_case(text, true)));
    return std::set<std::string>(list.begin(), list.end());
  };
  const std::set<std::string> p = set_of(predicted), w = set_of(wanted);
  if (p.empty() && w.empty()) return 0.5;  // the rule of Tweet Sentiment Extraction for two empty texts
  std::vector<std::string> both;
  std::set_intersection(p.begin(), p.end(), w.begin(), w.end(), std::back_inserter(both));
  return static_cast<double>(both.size()) / static_cast<double>(p.size() + w.size() - both.size());
}

void AnswerSearch::add(std::span<const float> start, std::span<const float> end, std::span<const int64_t> samples) {
  struct Span {
    double score;
    int64_t first, last;
  };
  const size_t tokens = samples.empty() ? 0 : start.size() / samples.size(),
               kept = static_cast<size_t>(options_.n_best);
  // Adds an item to a list of the n best, which is sorted by descending score. Among equal scores the earlier item
  // comes first.
  const auto keep = [&](auto& list, auto&& item) {
    if (list.size() == kept && !(item.score > list.back().score)) return;
    const auto at = std::find_if(list.begin(), list.end(), [&](const auto& x) { return item.score > x.score; });
    list.insert(at, std::move(item));
    if (list.size() > kept) list.pop_back();
  };
  for (size_t r = 0; r < samples.size(); ++r) {
    const AnswerKey::Window& w = key_.windows.at(static_cast<size_t>(samples[r]));
    const auto stop = std::min(w.first + static_cast<int64_t>(w.parts.size()), static_cast<int64_t>(tokens));
    const float *s = start.data() + r * tokens, *e = end.data() + r * tokens;
    std::vector<Span> best;
    for (int64_t i = w.first; i < stop; ++i) {
      for (int64_t j = i; j < std::min(stop, i + options_.longest); ++j) {
        const double score = static_cast<double>(s[i]) + e[j];
        if (score > -INFINITY) keep(best, Span{score, i, j});  // excludes NaN
      }
    }
    Found& found = found_[w.question];
    if (w.none < static_cast<int64_t>(tokens))
      found.none = std::min(found.none, static_cast<double>(s[w.none]) + e[w.none]);
    for (const Span& span : best) {
      const auto place = key_.place(samples[r], span.first, span.last).value();
      keep(found.spans, Best{span.score, key_.text(samples[r], span.first, span.last), place.first, place.second});
    }
  }
}

double AnswerSearch::Found::excess() const { return spans.empty() ? INFINITY : none - spans.front().score; }

AnswerSearch::Best AnswerSearch::answer(const Found& found) const {
  if (options_.may_have_none && found.excess() > options_.null_threshold) return {found.none, {}, 0, 0};
  return found.spans.empty() ? Best{} : found.spans.front();
}

std::vector<std::pair<AnswerSearch::Best, double>> AnswerSearch::ranked(const Found& found) const {
  std::vector<std::pair<Best, double>> out;
  const auto none = [&] {
    if (options_.may_have_none) out.emplace_back(Best{found.none, {}, 0, 0}, 0);
  };
  bool none_added = false;
  for (const Best& b : found.spans) {
    if (out.size() == static_cast<size_t>(options_.n_best)) break;
    if (!none_added && found.none > b.score) {
      none();
      none_added = true;
      if (out.size() == static_cast<size_t>(options_.n_best)) break;
    }
    out.emplace_back(b, 0);
  }
  if (!none_added) none();
  double top = -INFINITY, sum = 0;
  for (const auto& [b, p] : out) top = std::max(top, b.score);
  for (const auto& [b, p] : out) sum += std::exp(b.score - top);
  for (auto& [b, p] : out) p = std::exp(b.score - top) / sum;
  return out;
}

// Scores the predictions as SQuAD's scripts do. With SQuAD 2.0, answers that are empty after normalization are ignored,
// and the right answer to a question without answers is the empty text. If no answer is predicted, only a question
// without answers counts as right.
std::vector<AnswerScores::Scored> AnswerScores::scored() const {
  std::vector<Scored> out;
  const bool may_have_none = search_.options().may_have_none;
  for (const auto& [question, found] : search_.found()) {
    std::vector<std::string> wanted;
    for (const Answer& a : search_.key().questions[question].answers) {
      if (!may_have_none || !normalize_answer(a.text).empty()) wanted.push_back(a.text);
    }
    Scored j;
    j.has_answer = !search_.key().questions[question].answers.empty();
    if (wanted.empty() && may_have_none) wanted.emplace_back();
    const auto score_answer = [&](const std::string& said, double& exact, double& f1) {
      const std::string normal = normalize_answer(said);
      for (const std::string& w : wanted) {
        const std::string right = normalize_answer(w);
        exact = std::max(exact, normal == right ? 1.0 : 0.0);
        const bool empty = may_have_none && (normal.empty() || right.empty());
        f1 = std::max(f1, empty ? (normal == right ? 1.0 : 0.0) : answer_f1(said, w));
      }
    };
    const std::string said = search_.answer(found).text;
    if (may_have_none && said.empty()) {
      j.exact = j.f1 = j.has_answer ? 0 : 1;
    } else {
      score_answer(said, j.exact, j.f1);
    }
    for (const Answer& a : search_.key().questions[question].answers)
      j.jaccard = std::max(j.jaccard, answer_jaccard(said, a.text));
    const std::string span = found.spans.empty() ? std::string() : found.spans.front().text;
    score_answer(span, j.span_exact, j.span_f1);
    j.span = !span.empty();
    j.excess = found.excess();
    out.push_back(j);
  }
  return out;
}

namespace {
template <class List, class F>
double mean(const List& list, F&& value) {
  double sum = 0;
  for (const auto& x : list) sum += value(x);
  return sum / std::max(1.0, static_cast<double>(list.size()));
}
}  // namespace

double AnswerScores::exact_match() const {
  return mean(scored(), [](const Scored& j) { return j.exact; });
}
double AnswerScores::f1() const {
  return mean(scored(), [](const Scored& j) { return j.f1; });
}
double AnswerScores::jaccard() const {
  return mean(scored(), [](const Scored& j) { return j.jaccard; });
}

std::vector<std::string> AnswerScores::kind_names() {
  return {"HasAns_exact", "HasAns_f1",  "HasAns_total",      "NoAns_exact", "NoAns_f1",
          "NoAns_total",  "best_exact", "best_exact_thresh", "best_f1",     "best_f1_thresh"};
}

std::vector<std::pair<std::string, double>> AnswerScores::by_kind() const {
  std::vector<Scored> all = scored(), with, without;
  for (const Scored& j : all) (j.has_answer ? with : without).push_back(j);
  // Tries each question's score difference as the threshold, in ascending order, and keeps the threshold with the best
  // score.
  std::stable_sort(all.begin(), all.end(), [](const Scored& a, const Scored& b) { return a.excess < b.excess; });
  const auto best = [&](double Scored::*score) {
    double now = static_cast<double>(without.size()), most = now, threshold = 0;
    for (const Scored& j : all) {
      now += j.has_answer ? j.*score : j.span ? -1 : 0;
      if (!(now > most)) continue;
      most = now;
      threshold = j.excess;
    }
    return std::pair{most / std::max(1.0, static_cast<double>(all.size())), threshold};
  };
  const auto of = [](const std::vector<Scored>& list, double Scored::*score) {
    return list.empty() ? std::nan("") : mean(list, [&](const Scored& j) { return j.*score; });
  };
  const auto exact = best(&Scored::span_exact), f1 = best(&Scored::span_f1);
  const double values[] = {of(with, &Scored::exact),
                           of(with, &Scored::f1),
                           static_cast<double>(with.size()),
                           of(without, &Scored::exact),
                           of(without, &Scored::f1),
                           static_cast<double>(without.size()),
                           exact.first,
                           exact.second,
                           f1.first,
                           f1.second};
  std::vector<std::pair<std::string, double>> out;
  for (const std::string& name : kind_names()) out.emplace_back(name, values[out.size()]);
  return out;
}

}  // namespace amp
