// What is known of a family of models that can be built: the row that its file in models/architectures/ registers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/model_config.h"
#include "models/net.h"

namespace amp {

// What a model ends in. In Hugging Face's config.json the end of the class's name: BertForSequenceClassification.
enum class Head {
  none,
  sequence_classification,
  token_classification,
  question_answering,
  masked_lm,
  causal_lm,
  image_classification
};
std::string_view name_of(Head h);  // "sequence_classification"

struct Architecture {
  std::string_view name;                      // for `create`, and config.json's model_type
  std::vector<std::string_view> other_types;  // further model_types that are the same computation
  std::string_view prefix;                    // of the base model's weights where a head stands on it: "bert."
  std::vector<std::string_view>
      head_weights;         // what the names of a head's weights begin with: a checkpoint may lack them
  std::vector<Head> heads;  // the first: what `create` makes when it is not told
  std::string_view config;  // JSON: every key that build() reads, as `create` begins with
  void (*build)(Net& net, const ModelConfig& config, Head head);
};

struct RegisterArchitecture {
  explicit RegisterArchitecture(Architecture a);
};

const std::vector<const Architecture*>& architectures();  // by name
// By name or model_type. Exit::unsupported E_ARCHITECTURE: none, with those that are.
const Architecture& architecture(std::string_view model_type);
// "BertForSequenceClassification", "GPT2LMHeadModel", "BertModel"; Exit::unsupported E_ARCHITECTURE.
Head head_of_class(const Architecture& a, std::string_view class_name);
Head head_from_name(const Architecture& a, std::string_view name);  // as name_of() has it

}  // namespace amp
