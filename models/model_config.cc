// Typed access to config.json with nlohmann::json. A missing or null key gives the default; a wrong type or value is an
// error that names the key. The functions that build models must reject settings that they do not support, with
// require().
#include "models/model_config.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/json_nesting.h"
#include "base/text.h"

namespace amp {

ModelConfig::ModelConfig(const std::string& text, std::string where)
    : json_(std::make_unique<nlohmann::json>(parse_json(text))), where_(std::move(where)) {
  if (!json_->is_object()) fail(Exit::data, "E_CONFIG_JSON", cat(where_, " is no JSON object"));
}
ModelConfig::~ModelConfig() = default;
ModelConfig::ModelConfig(ModelConfig&&) noexcept = default;

void ModelConfig::override_with(const std::string& text) {
  const nlohmann::json other = parse_json(text);
  if (!other.is_object())
    fail(Exit::usage, "E_CONFIG_KEY", "the model's configuration is no JSON object", R"(as in {"hidden_size": 128})");
  for (const auto& [key, value] : other.items()) {
    if (!json_->contains(key)) {
      std::vector<std::string> keys;
      for (const auto& [k, v] : json_->items()) keys.push_back(k);
      const std::string close = nearest(key, keys);
      fail(Exit::usage, "E_CONFIG_KEY", cat("a ", where_, " has no key '", printable(key), "'"),
           close.empty() ? cat("it has ", join(keys, ", ")) : cat("did you mean '", close, "'?"));
    }
    (*json_)[key] = value;
  }
}

void ModelConfig::complete_with(const std::string& text) {
  nlohmann::json all = nlohmann::json::parse(text);
  all.update(*json_);
  *json_ = std::move(all);
}

const nlohmann::json* ModelConfig::find(std::string_view key) const {
  const auto it = json_->find(std::string(key));
  return it == json_->end() || it->is_null() ? nullptr : &*it;
}
bool ModelConfig::has(std::string_view key) const { return find(key) != nullptr; }

void ModelConfig::refuse(std::string_view key, std::string_view why, std::string_view hint) const {
  const nlohmann::json* v = find(key);
  fail(Exit::unsupported, "E_CONFIG",
       cat(where_, ": ", key, v ? cat(" is ", printable(v->dump().substr(0, 80)), ": ") : std::string(" "), why),
       std::string(hint));
}

int64_t ModelConfig::positive(std::string_view key) const {
  const nlohmann::json* v = find(key);
  if (!v) refuse(key, "is missing");
  if (!v->is_number_integer() || v->get<int64_t>() < 1 || v->get<int64_t>() > kMostSize)
    refuse(key, cat("expected a whole number from 1 to ", kMostSize));
  return v->get<int64_t>();
}
int64_t ModelConfig::positive(std::string_view key, int64_t otherwise) const {
  return has(key) ? positive(key) : otherwise;
}
int64_t ModelConfig::layers(std::string_view key) const {
  const int64_t n = positive(key);
  if (n > kMostLayers) refuse(key, cat("at most ", kMostLayers, " layers can be built"));
  return n;
}
int64_t ModelConfig::layers(std::string_view key, int64_t otherwise) const {
  return has(key) ? layers(key) : otherwise;
}
double ModelConfig::number(std::string_view key, double otherwise) const {
  const nlohmann::json* v = find(key);
  if (!v) return otherwise;
  if (!v->is_number()) refuse(key, "expected a number");
  return v->get<double>();
}
bool ModelConfig::flag(std::string_view key, bool otherwise) const {
  const nlohmann::json* v = find(key);
  if (!v) return otherwise;
  if (!v->is_boolean()) refuse(key, "expected true or false");
  return v->get<bool>();
}
std::string ModelConfig::text(std::string_view key, const std::string& otherwise) const {
  const nlohmann::json* v = find(key);
  if (!v) return otherwise;
  if (!v->is_string()) refuse(key, "expected a text");
  return v->get<std::string>();
}
std::vector<int64_t> ModelConfig::integers(std::string_view key, const std::vector<int64_t>& otherwise, int64_t least,
                                           int64_t most) const {
  const nlohmann::json* v = find(key);
  if (!v) return otherwise;
  std::vector<int64_t> out;
  if (!v->is_array()) refuse(key, "expected a list of whole numbers");
  for (const nlohmann::json& x : *v) {
    if (!x.is_number_integer() || x.get<int64_t>() < least || x.get<int64_t>() > most)
      refuse(key, cat("expected a list of whole numbers from ", least, " to ", most));
    out.push_back(x.get<int64_t>());
  }
  return out;
}
std::vector<std::string> ModelConfig::texts(std::string_view key, char separator) const {
  const nlohmann::json* v = find(key);
  return v && v->is_string() ? split(v->get<std::string>(), separator) : texts(key);
}
std::vector<std::string> ModelConfig::texts(std::string_view key) const {
  const nlohmann::json* v = find(key);
  std::vector<std::string> out;
  if (!v) return out;
  if (!v->is_array()) refuse(key, "expected a list of texts");
  for (const nlohmann::json& x : *v) {
    if (!x.is_string()) refuse(key, "expected a list of texts");
    out.push_back(x.get<std::string>());
  }
  return out;
}

ModelConfig ModelConfig::part(const std::vector<std::string_view>& keys) const {
  for (const std::string_view key : keys) {
    if (const nlohmann::json* v = find(key)) return ModelConfig(v->dump(), cat(where_, ", ", key));
  }
  return ModelConfig("{}", where_);
}

int64_t ModelConfig::labels() const {
  const nlohmann::json* names = find("id2label");
  if (names && names->is_object() && !names->empty()) return static_cast<int64_t>(names->size());
  return positive("num_labels", 2);
}

void ModelConfig::require(std::string_view key, std::string_view value) const {
  if (has(key) && text(key, "") != value) refuse(key, cat("only '", value, "' is built"));
}
void ModelConfig::require_false(std::string_view key) const {
  if (flag(key, false)) refuse(key, "only false is built");
}

std::string ModelConfig::dump() const { return json_->dump(); }

}  // namespace amp
