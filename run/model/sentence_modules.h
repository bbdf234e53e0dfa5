// What sentence-transformers keeps beside a model: modules.json lists the steps behind the transformer, and
// 1_Pooling/config.json says how hidden states become an embedding.
#pragma once

#include <optional>
#include <string>

namespace amp {

struct SentencePooling {
  std::string modes;       // as importer/surgery/pooling.h reads them: "mean", "cls+max"
  bool normalize = false;  // a Normalize module follows
  std::string file;        // that says so
};

// Of the folder's modules.json, or of the folder above for one that is called onnx, where repositories keep their
// exports. Nothing where there is none. E_POOLING (exit 4) for modules that change the embedding and are not built.
std::optional<SentencePooling> sentence_pooling(const std::string& folder);

}  // namespace amp
