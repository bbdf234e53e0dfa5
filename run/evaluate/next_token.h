// Computes the logits of the next token of a text with a Session. Each call computes the whole text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/language/seq2seq.h"
#include "data/tokenizer.h"
#include "trainer/compile/session.h"

namespace amp {

class NextToken {
 public:
  // The session and the tokenizer must outlive this object. logits: name of the model's output (batch, length,
  // vocabulary). inputs: those that a text gives. more: the values of all other inputs.
  NextToken(Session& session, const std::string& logits, const Tokenizer& tokenizer, std::vector<InputSpec> inputs,
            Tensors more = {});

  int64_t fixed() const { return fixed_; }  // the only length that the graph accepts; 0: any

  // Returns the logits (vocabulary) after the last id. `most`: the maximal length of the text.
  std::vector<float> logits(const std::vector<int32_t>& ids, int64_t most);
  // Returns the logits (vocabulary) of an encoder-decoder model after the target ids.
  std::vector<float> logits(const LabeledText& source, std::vector<int32_t> ids, const Seq2SeqOptions& options);

  // Returns the inputs of a text, which is padded to a multiple of kLengthStep.
  Tensors inputs_of(const std::vector<int32_t>& ids, int64_t most) const;
  // Returns row `place` of logits (1, length, vocabulary). Throws E_TASK for other shapes.
  std::vector<float> row(const HostTensor& logits, int64_t place) const;
  int output() const { return output_; }  // index of the logits in the graph
  const std::vector<InputSpec>& inputs() const { return inputs_; }

  // Texts are padded to a multiple of this, because each length needs its own Program.
  static constexpr int64_t kLengthStep = 32;

 private:
  std::vector<float> computed(const Tensors& batch, int64_t place);

  Session& session_;
  std::string logits_;
  int output_;
  const Tokenizer& tokenizer_;
  std::vector<InputSpec> inputs_;
  Tensors more_;
  int64_t fixed_;
};

}  // namespace amp
