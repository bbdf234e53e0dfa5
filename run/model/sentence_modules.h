// Reads the configuration of sentence-transformers models: modules.json lists the modules after the transformer, and
// 1_Pooling/config.json defines how hidden states are pooled to an embedding.
#pragma once

#include <optional>
#include <string>

namespace amp {

struct SentencePooling {
  std::string modes;       // in the form of importer/surgery/pooling.h: "mean", "cls+max"
  bool normalize = false;  // a Normalize module follows the pooling
  std::string file;        // path of the pooling configuration
};

// Reads modules.json of the folder or, if the folder is named onnx (exports in a repository), of its parent. Returns
// nothing if there is no such file. Throws E_POOLING (exit 4) for modules that change the embedding and are not
// supported.
std::optional<SentencePooling> sentence_pooling(const std::string& folder);

}  // namespace amp
