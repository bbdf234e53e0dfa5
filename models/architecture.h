// The registry of model families that can be built: one Architecture per family, registered by its file in
// models/architectures/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/model_config.h"
#include "models/net.h"

namespace amp {

// The head of a model. Hugging Face's config.json has it as the end of a class name: BertForSequenceClassification.
enum class Head {
  none,
  sequence_classification,
  token_classification,
  question_answering,
  masked_lm,
  causal_lm,
  image_classification
};
std::string_view name_of(Head h);  // for example "sequence_classification"

struct Architecture {
  std::string_view name;                       // name for `create`, and model_type in config.json
  std::vector<std::string_view> other_types;   // further values of model_type for the same computation
  std::string_view prefix;                     // prefix of the base model's weights in a model with a head: "bert."
  std::vector<std::string_view> head_weights;  // prefixes of the names of head weights, which a checkpoint may lack
  std::vector<Head> heads;                     // the first one is the default for `create`
  std::string_view config;                     // JSON: all keys that build() reads, with their defaults for `create`
  void (*build)(Net& net, const ModelConfig& config, Head head);
};

struct RegisterArchitecture {
  explicit RegisterArchitecture(Architecture a);
};

const std::vector<const Architecture*>& architectures();  // returns the architectures sorted by name
// Returns the architecture of this name or model_type. Throws E_ARCHITECTURE (Exit::unsupported) if there is none; the
// message lists the known names.
const Architecture& architecture(std::string_view model_type);
// Returns the head of a class name such as "BertForSequenceClassification", "GPT2LMHeadModel" or "BertModel".
// Throws E_ARCHITECTURE (Exit::unsupported) if this architecture cannot be built with that head.
Head head_of_class(const Architecture& a, std::string_view class_name);
Head head_from_name(const Architecture& a, std::string_view name);  // name: a text that name_of() returns

}  // namespace amp
