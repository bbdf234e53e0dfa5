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
class AnswerScores {
 public:
  explicit AnswerScores(const AnswerKey& key, int64_t longest = kLongestAnswer) : key_(key), longest_(longest) {}
  // start, end: (samples, tokens).
  void add(std::span<const float> start, std::span<const float> end, std::span<const int64_t> samples);
  double exact_match() const;  // over the questions added
  double f1() const;

 private:
  struct Best {
    double score = 0;
    std::string text;
  };
  template <class F>
  double mean(F&& score) const;
  const AnswerKey& key_;
  int64_t longest_;
  std::map<size_t, Best> best_;  // by question
};

}  // namespace amp
