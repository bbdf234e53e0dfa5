// Answers to questions, judged as SQuAD's evaluation script (1.1) does: lower case, without punctuation, articles and
// superfluous space; the best of the given answers counts.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "data/questions.h"

namespace amp {

std::string normalize_answer(const std::string& text);
double answer_f1(const std::string& predicted, const std::string& wanted);  // of the words in common

// Of each question the span of the highest start and end logit among all its windows: start not after end, both in the
// passage, at most `longest` tokens.
constexpr int64_t kLongestAnswer = 30;  // Hugging Face's run_qa, max_answer_length
class AnswerSearch {
 public:
  explicit AnswerSearch(const AnswerKey& key, int64_t longest = kLongestAnswer) : key_(key), longest_(longest) {}
  // start, end: (samples, tokens).
  void add(std::span<const float> start, std::span<const float> end, std::span<const int64_t> samples);

  struct Best {
    double score = 0;  // sum of both logits
    std::string text;
    int64_t begin = 0, end = 0;  // in the passage
  };
  const std::map<size_t, Best>& best() const { return best_; }  // by question
  const AnswerKey& key() const { return key_; }

 private:
  const AnswerKey& key_;
  int64_t longest_;
  std::map<size_t, Best> best_;
};

class AnswerScores {
 public:
  explicit AnswerScores(const AnswerKey& key, int64_t longest = kLongestAnswer) : search_(key, longest) {}
  void add(std::span<const float> start, std::span<const float> end, std::span<const int64_t> samples) {
    search_.add(start, end, samples);
  }
  double exact_match() const;  // over the questions added
  double f1() const;

 private:
  template <class F>
  double mean(F&& score) const;
  AnswerSearch search_;
};

}  // namespace amp
