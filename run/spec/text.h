// TextSpec: settings of texts: columns, tokenizer, lengths, answers to questions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run/spec/default.h"

namespace amp {

struct TextSpec {
  Default<std::vector<std::string>> text_columns{{}};
  std::vector<std::string> val_text_columns;  // empty: text_columns
  std::string tokenizer, vocab;
  Default<bool> lower_case{true};
  Default<int64_t> max_seq_len{128}, doc_stride{32}, max_answer_length{30};  // tokens
  Default<bool> version_2_with_negative{false};                              // SQuAD 2.0
  Default<double> null_score_diff_threshold{0};
  int64_t n_best_size = 1, top_k = 5;
  int64_t pad_to_multiple = 8;
  bool group_by_length = true, in_tokens = false;
};

}  // namespace amp
