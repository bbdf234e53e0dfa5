// The models of padding_cases.h as text: embeddings, a form of the mask, an attention layer, an operation on its
// result, a head.
#pragma once

#include <string>
#include <vector>

#include "padding_cases.h"

namespace amp::test {

// A part of a model, and whether batches with it must be packed.
struct ModelPart {
  std::string name, text;
  decltype(PaddingCase::packed) packed;
  std::string input = {};  // the mask's declaration
};

const std::vector<ModelPart>&
mask_kinds();                           // the first is the plainest; statements that compute `s2` from the scores `s1`
const std::vector<ModelPart>& mixes();  // statements that compute `t` from the layer's result `h`
const std::vector<ModelPart>& heads();  // statements that compute `r` (batch, 8) from `t`
const ModelPart& head(const std::string& name);

inline const std::string kNoMix = "t = Identity(h)\n";
inline const std::string kClassifier = "param Wc 8 3\ny = MatMul(r, Wc)\noutput y\n";
inline const std::string kTokenClassifier = "param Wc 8 3\ny = MatMul(t, Wc)\noutput y\n";

// Returns an encoder. counted: positions are counted from the mask, as in RoBERTa; else 0, 1, ...
std::string encoder(const ModelPart& mask, const std::string& mix, bool counted = false);

}  // namespace amp::test
