// LanguageSpec: settings of texts for language models and encoder-decoder models.
#pragma once

#include <cstdint>
#include <string>

#include "run/spec/default.h"

namespace amp {

struct LanguageSpec {
  std::string chat_template;  // path of a file; empty: the tokenizer's template
  Default<std::string> packing{"none"}, train_on{"answers"}, append_eos{"auto"};
  Default<std::string> source_prefix{""}, decoder_start_token{"auto"};
  Default<int64_t> max_target_length{0};  // in tokens; 0: max_seq_len
  Default<double> mlm_probability{0.15};
  Default<bool> whole_word_mask{false};
};

}  // namespace amp
