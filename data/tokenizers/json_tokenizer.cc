// Reads Hugging Face's tokenizer.json, with the special tokens of tokenizer_config.json in the same folder. Each part
// is read by the file of its kind (normalizers.cc, pre_tokenizers.cc, ...); unknown types are errors.
#include "data/tokenizers/json_tokenizer.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json_nesting.h"
#include "base/text.h"
#include "data/tokenizers/pipeline.h"
#include "data/tokenizers/pre_tokenizers.h"
#include "data/tokenizers/special_names.h"
#include "data/tokenizers/tokenizer_json.h"

namespace amp {

namespace {

using Json = nlohmann::json;
using What = TemplatePart::What;

std::vector<AddedToken> read_added(const Json& list) {
  std::vector<AddedToken> out;
  for (const auto& j : list) {
    AddedToken t;
    t.id = j.at("id").get<int32_t>();
    t.content = j.at("content").get<std::string>();
    t.single_word = j.value("single_word", false);
    t.lstrip = j.value("lstrip", false);
    t.rstrip = j.value("rstrip", false);
    t.normalized = j.value("normalized", !j.value("special", false));
    t.special = j.value("special", false);
    if (t.id < 0 || t.id >= kMostIds)
      fail(Exit::data, "E_TOKENIZER", cat("the added token '", printable(t.content), "' has the id ", t.id),
           cat("an id is a whole number below ", kMostIds));
    out.push_back(std::move(t));
  }
  return out;
}

TokenTemplate read_template(const Json& items, const Json& special) {
  TokenTemplate frame;
  for (const auto& item : items) {
    if (item.contains("Sequence")) {
      const Json& s = item["Sequence"];
      frame.push_back({s.at("id") == "A" ? What::first : What::second, -1, s.value("type_id", uint8_t{0})});
      continue;
    }
    const Json& s = item.at("SpecialToken");
    const std::string name = s.at("id");
    if (!special.contains(name))
      fail(Exit::data, "E_TOKENIZER", cat("the template's token '", printable(name), "' has no id"));
    for (const auto& id : special[name].at("ids"))
      frame.push_back({What::special, id.get<int32_t>(), s.value("type_id", uint8_t{0})});
  }
  return frame;
}

void read_post_processor(const Json& j, PipelineParts& p) {
  if (j.is_null()) return;
  const std::string type = j.at("type");
  const auto special = [&](const char* key, uint8_t of = 0) {
    return TemplatePart{What::special, j.at(key).at(1).get<int32_t>(), of};
  };
  if (type == "Sequence") {
    for (const auto& one : j.at("processors")) read_post_processor(one, p);
  } else if (type == "ByteLevel") {
    p.trim_places = j.value("trim_offsets", true);
    p.add_prefix_space = j.value("add_prefix_space", true);
  } else if (type == "TemplateProcessing") {
    p.single = read_template(j.at("single"), j.at("special_tokens"));
    p.pair = read_template(j.at("pair"), j.at("special_tokens"));
  } else if (type == "BertProcessing") {
    p.single = {special("cls"), {What::first}, special("sep")};
    p.pair = {special("cls"), {What::first}, special("sep"), {What::second, -1, 1}, special("sep", 1)};
  } else if (type == "RobertaProcessing") {
    p.single = {special("cls"), {What::first}, special("sep")};
    p.pair = {special("cls"), {What::first}, special("sep"), special("sep"), {What::second}, special("sep")};
    p.trim_places = j.value("trim_offsets", true);
    p.add_prefix_space = j.value("add_prefix_space", true);
  } else {
    unknown_part("post_processor", type);
  }
}

void read_decoder(const Json& j, std::vector<DecodeStep>& out) {
  if (j.is_null()) return;
  const std::string type = j.at("type");
  if (type == "Sequence") {
    for (const auto& one : j.at("decoders")) read_decoder(one, out);
  } else if (type == "ByteLevel") {
    out.push_back(byte_level_step());
  } else if (type == "WordPiece") {
    out.push_back(word_piece_step(j.value("prefix", "##"), j.value("cleanup", true)));
  } else if (type == "Metaspace") {
    const std::string scheme = j.value("prepend_scheme", j.value("add_prefix_space", true) ? "always" : "never");
    out.push_back(metaspace_step(j.value("replacement", "\u2581"), scheme != "never"));
  } else if (type == "BPEDecoder") {
    out.push_back(suffix_step(j.value("suffix", "</w>")));
  } else if (type == "Replace") {
    const Json& pattern = j.at("pattern");
    if (!pattern.contains("String")) unknown_part("decoder", "Replace with a regular expression");
    out.push_back(replace_step(pattern["String"], j.at("content")));
  } else if (type == "Fuse") {
    out.push_back(fuse_step());
  } else if (type == "ByteFallback") {
    out.push_back(byte_fallback_step());
  } else if (type == "Strip") {
    out.push_back(strip_step(j.at("content"), j.value("start", size_t{0}), j.value("stop", size_t{0})));
  } else {
    unknown_part("decoder", type);
  }
}

bool holds(const Json& j, const char* type) {  // searches nested sequences
  if (!j.is_object()) return false;
  if (j.value("type", "") == type) return true;
  for (const char* const list : {"pretokenizers", "normalizers"}) {
    if (!j.contains(list)) continue;
    for (const auto& one : j[list]) {
      if (holds(one, type)) return true;
    }
  }
  return false;
}

const Json& part(const Json& j, const char* name) {
  static const Json none;
  return j.contains(name) ? j[name] : none;
}

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_from_json(const Json& j, const std::string& folder) {
  PipelineParts p;
  p.normalizer = read_normalizer(part(j, "normalizer"));
  p.pre_tokenizer = read_pre_tokenizer(part(j, "pre_tokenizer"));
  p.model = read_model(j.at("model"));
  p.added = read_added(part(j, "added_tokens"));
  read_post_processor(part(j, "post_processor"), p);
  read_decoder(part(j, "decoder"), p.decoders);
  p.spaced_words = holds(part(j, "pre_tokenizer"), "ByteLevel") && !p.add_prefix_space;
  if (const Json& cut = part(j, "truncation"); cut.is_object()) p.cut_left = cut.value("direction", "Right") == "Left";
  p.special = find_specials(p, folder);
  if (const Json& padding = part(j, "padding"); padding.is_object() && p.special.pad < 0)
    p.special.pad = padding.value("pad_id", int32_t{0});
  return make_pipeline(std::move(p));
}

namespace {

std::unique_ptr<Tokenizer> open_json_tokenizer(const std::string& path, const TokenizerOptions&) {
  const auto file = read_file(path);
  try {
    if (json_levels(file.text()) > kMostJsonLevels)
      fail(Exit::data, "E_TOKENIZER", cat("its parts nest deeper than ", kMostJsonLevels));
    const Json j = Json::parse(file.text());
    if (!j.is_object() || !j.contains("model"))
      fail(Exit::data, "E_TOKENIZER", "there is no \"model\" in it",
           "a tokenizer.json is written by Hugging Face's tokenizers");
    return tokenizer_from_json(j, std::filesystem::path(path).parent_path().string());
  } catch (const Json::exception& e) {
    fail(Exit::data, "E_TOKENIZER", cat(path, ": this is no tokenizer.json: ", printable(e.what())),
         "a tokenizer.json is written by Hugging Face's tokenizers");
  } catch (Error& e) {
    throw e.at(path);
  }
}

const TokenizerRegistration json_tokenizer_row{{
    .order = 1,
    .names = {"tokenizer.json"},
    .reads = [](const std::string& name) { return name.ends_with(".json") && !name.ends_with("vocab.json"); },
    .open = open_json_tokenizer,
}};

}  // namespace

}  // namespace amp
