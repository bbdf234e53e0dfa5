#include "data/tokenizers/special_names.h"

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/json_nesting.h"

namespace amp {

namespace {

namespace fs = std::filesystem;

struct Role {
  const char* key;
  int32_t SpecialIds::*id;
  std::array<const char*, 4> names;
};
constexpr Role kRoles[] = {
    {"unk_token", &SpecialIds::unk, {"[UNK]", "<unk>", "<|endoftext|>", nullptr}},
    {"pad_token", &SpecialIds::pad, {"[PAD]", "<pad>", "<|pad|>", "<|finetune_right_pad_id|>"}},
    {"cls_token", &SpecialIds::cls, {"[CLS]", "<cls>", "<s>", nullptr}},
    {"sep_token", &SpecialIds::sep, {"[SEP]", "<sep>", "</s>", nullptr}},
    {"mask_token", &SpecialIds::mask, {"[MASK]", "<mask>", nullptr, nullptr}},
    {"bos_token", &SpecialIds::bos, {"<s>", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>"}},
    {"eos_token", &SpecialIds::eos, {"</s>", "<|end_of_text|>", "<|endoftext|>", "<|im_end|>"}},
};

std::optional<std::string> text_in(const std::string& path, const std::string& key) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  const auto j = parse_json(read_file(path).text());
  if (!j.is_object() || !j.contains(key)) return std::nullopt;
  const auto& v = j[key];
  if (v.is_string()) return v.get<std::string>();
  if (v.is_object() && v.contains("content") && v["content"].is_string()) return v["content"].get<std::string>();
  return std::nullopt;
}

}  // namespace

std::string config_text(const std::string& folder, const std::string& key) {
  for (const char* const name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    if (const auto text = text_in((fs::path(folder) / name).string(), key)) return *text;
  }
  return {};
}

SpecialIds find_specials(const PipelineParts& parts, const std::string& folder) {
  const auto id_of = [&](const std::string& token) {
    for (const AddedToken& a : parts.added) {
      if (a.content == token) return a.id;
    }
    const auto it = parts.model->vocabulary().find(token);
    return it == parts.model->vocabulary().end() ? -1 : it->second;
  };
  SpecialIds ids;
  if (!parts.model->unknown().empty()) ids.unk = id_of(parts.model->unknown());
  for (const Role& r : kRoles) {
    if (const std::string configured = config_text(folder, r.key); !configured.empty()) ids.*r.id = id_of(configured);
    for (const char* const name : r.names) {
      if (ids.*r.id < 0 && name) ids.*r.id = id_of(name);
    }
  }
  return ids;
}

}  // namespace amp
