// The description of a model to build: Hugging Face's config.json, or the same keys given by the user.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace amp {

// Access to the keys of a description. Every read checks type and range. A failed check throws E_CONFIG
// (Exit::unsupported) with the key, its value and the requirement.
class ModelConfig {
 public:
  // text: a JSON object. where: the name of the object in messages, such as "config.json of FOLDER".
  ModelConfig(const std::string& text, std::string where);
  ~ModelConfig();
  ModelConfig(ModelConfig&&) noexcept;

  // Replaces keys by those in `text` (a JSON object). Throws E_CONFIG_KEY (Exit::usage) for a key that the description
  // does not have; the message names the nearest key.
  void override_with(const std::string& text);

  void complete_with(const std::string& text);  // adds the keys of `text` that are missing

  bool has(std::string_view key) const;                             // whether the key is present and not null
  int64_t positive(std::string_view key) const;                     // the value must be at least 1
  int64_t positive(std::string_view key, int64_t otherwise) const;  // `otherwise` if the key is missing
  // layers() reads a number of layers: 1 to kMostLayers, because more would fill the memory with nodes and weights.
  static constexpr int64_t kMostLayers = 1000, kMostSize = int64_t{1} << 31;
  int64_t layers(std::string_view key) const;
  int64_t layers(std::string_view key, int64_t otherwise) const;
  double number(std::string_view key, double otherwise) const;
  bool flag(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key, const std::string& otherwise) const;
  std::vector<int64_t> integers(std::string_view key, const std::vector<int64_t>& otherwise, int64_t least = 1,
                                int64_t most = kMostSize) const;
  std::vector<std::string> texts(std::string_view key) const;
  // Reads a list of strings, or a string that is split at `separator`.
  std::vector<std::string> texts(std::string_view key, char separator) const;
  // Returns the object under the first of these keys that is present; an empty object if none is.
  ModelConfig part(const std::vector<std::string_view>& keys) const;
  int64_t labels() const;  // number of classes: that in id2label, else num_labels, else 2

  // Reject a setting that changes the computation in a way that the caller does not support.
  void require(std::string_view key, std::string_view value) const;  // the key must be absent or have this value
  void require_false(std::string_view key) const;

  std::string dump() const;
  const std::string& where() const { return where_; }
  [[noreturn]] void refuse(std::string_view key, std::string_view why, std::string_view hint = {}) const;

 private:
  const nlohmann::json* find(std::string_view key) const;
  std::unique_ptr<nlohmann::json> json_;
  std::string where_;
};

}  // namespace amp
