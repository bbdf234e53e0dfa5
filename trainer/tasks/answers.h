// Scores answers to questions as SQuAD's evaluation scripts do. Texts are compared in lower case, without punctuation,
// articles and superfluous space. As in SQuAD 1.1, the best match among the given answers counts. As in SQuAD 2.0, a
// question may have no answer.
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
double answer_f1(const std::string& predicted, const std::string& wanted);  // F1 of the common words
// Returns the Jaccard index of the two sets of lower-case words, with punctuation, as the competition Tweet
// Sentiment Extraction scores.
double answer_jaccard(const std::string& predicted, const std::string& wanted);

// Defaults are those of Hugging Face's run_qa.
struct AnswerOptions {
  int64_t longest = 30;  // maximum number of tokens of a predicted answer
  int64_t n_best = 1;    // number of answers kept per question
  // SQuAD 2.0: a question has no answer if the score of [CLS] (the lowest of its windows) exceeds that of the best span
  // by more than null_threshold.
  bool may_have_none = false;
  double null_threshold = 0;
};

// Finds for each question the spans with the highest sum of start and end logit among all its windows. The start is not
// after the end, and both are in the passage.
class AnswerSearch {
 public:
  explicit AnswerSearch(const AnswerKey& key, const AnswerOptions& options = {}) : key_(key), options_(options) {}
  // start, end: (samples, tokens).
  void add(std::span<const float> start, std::span<const float> end, std::span<const int64_t> samples);

  struct Best {
    double score = 0;  // sum of both logits
    std::string text;
    int64_t begin = 0, end = 0;  // offsets in the passage
  };
  struct Found {
    std::vector<Best> spans;                                // the best first
    double none = std::numeric_limits<double>::infinity();  // score of no answer
    double excess() const;  // score of no answer minus that of the best span: run_qa's score difference
  };
  const std::map<size_t, Found>& found() const { return found_; }  // key: index of the question in AnswerKey::questions
  Best answer(const Found& found) const;                           // empty text: the question has no answer
  // Returns the n best answers with their softmax probabilities (run_qa's n-best list). If may_have_none, one of
  // them is the empty text.
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
  // Return means over the questions whose samples were added.
  double exact_match() const;
  double f1() const;
  // Returns the Jaccard index of the words of the predicted answer and of the most similar reference answer. Words are
  // in lower case. A question without reference answers has index 0.
  double jaccard() const;
  // Returns the scores of SQuAD 2.0's script under its names, as fractions of 1: scores of questions with answers and
  // of those without, and the best thresholds on these questions.
  std::vector<std::pair<std::string, double>> by_kind() const;
  static std::vector<std::string> kind_names();

 private:
  struct Scored {
    bool has_answer = false;
    double exact = 0, f1 = 0, jaccard = 0;  // scores of the predicted answer
    double span_exact = 0, span_f1 = 0;     // scores of the best span, regardless of null_threshold
    double excess = 0;
    bool span = false;
  };
  std::vector<Scored> scored() const;
  AnswerSearch search_;
};

}  // namespace amp
