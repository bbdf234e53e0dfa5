// Answers to questions, judged as SQuAD's evaluation scripts do: lower case, without punctuation, articles and
// superfluous space; the best of the given answers counts (1.1), and no answer may be the right one (2.0).
#pragma once

#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/questions.h"

namespace amp {

std::string normalize_answer(const std::string& text);
double answer_f1(const std::string& predicted, const std::string& wanted);  // of the words in common
// Of the two sets of words in lower case, punctuation and all, as the competition Tweet Sentiment Extraction scores.
double answer_jaccard(const std::string& predicted, const std::string& wanted);

// Defaults are those of Hugging Face's run_qa.
struct AnswerOptions {
  int64_t longest = 30;  // tokens of a predicted answer
  int64_t n_best = 1;    // how many are kept
  // SQuAD 2.0: a question has no answer where the score of [CLS], the lowest of its windows, exceeds that of the best
  // span by more than the threshold.
  bool may_have_none = false;
  double null_threshold = 0;
};

// Of each question the spans of the highest sums of start and end logit among all its windows: start not after end,
// both in the passage.
class AnswerSearch {
 public:
  explicit AnswerSearch(const AnswerKey& key, const AnswerOptions& options = {}) : key_(key), options_(options) {}
  // start, end: (samples, tokens).
  void add(std::span<const float> start, std::span<const float> end, std::span<const int64_t> samples);

  struct Best {
    double score = 0;  // sum of both logits
    std::string text;
    int64_t begin = 0, end = 0;  // in the passage
  };
  struct Found {
    std::vector<Best> spans;                                // the best first
    double none = std::numeric_limits<double>::infinity();  // score of no answer
    double excess() const;                                  // of it over the best span: run_qa's score difference
  };
  const std::map<size_t, Found>& found() const { return found_; }  // by question
  Best answer(const Found& found) const;                           // without text: there is none
  // The n best with their softmax, run_qa's n-best list: no answer among them where there may be none.
  std::vector<std::pair<Best, double>> ranked(const Found& found) const;
  const AnswerKey& key() const { return key_; }
  const AnswerOptions& options() const { return options_; }

 private:
  const AnswerKey& key_;
  AnswerOptions options_;
  std::map<size_t, Found> found_;
};

inline constexpr const char* kSpanJaccard = "span_jaccard";  // the metric's name

class AnswerScores {
 public:
  explicit AnswerScores(const AnswerKey& key, const AnswerOptions& options = {}) : search_(key, options) {}
  void add(std::span<const float> start, std::span<const float> end, std::span<const int64_t> samples) {
    search_.add(start, end, samples);
  }
  // Over the questions added.
  double exact_match() const;
  double f1() const;
  double jaccard() const;  // as the texts are, with the best of the given answers; without any 0
  // SQuAD 2.0's script, as shares of 1: of questions that have answers and of those that have none, and the best
  // thresholds on these questions. Names are the script's.
  std::vector<std::pair<std::string, double>> by_kind() const;
  static std::vector<std::string> kind_names();

 private:
  struct Judged {
    bool has_answer = false;
    double exact = 0, f1 = 0, jaccard = 0;  // of what is predicted
    double span_exact = 0, span_f1 = 0;     // of the best span, whatever the threshold
    double excess = 0;
    bool span = false;
  };
  std::vector<Judged> judged() const;
  AnswerSearch search_;
};

}  // namespace amp
