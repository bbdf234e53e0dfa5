// Opens vocab.json with merges.txt in the same folder: GPT-2, RoBERTa and CLIP, which are distinguished by their
// vocabularies. The files are converted to the JSON of a tokenizer.json with the family's other parts.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json_nesting.h"
#include "base/text.h"
#include "base/utf8.h"
#include "data/tokenizers/json_tokenizer.h"

namespace amp {

namespace {

using Json = nlohmann::json;

Json read_merges(const std::string& path) {
  const auto file = read_file(path);
  check_utf8_file(file.text(), path);
  Json merges = Json::array();
  int64_t number = 0;
  for (std::string_view rest = without_byte_order_mark(file.text()); !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string line(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.pop_back();
    ++number;
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
      fail(Exit::data, "E_TOKENIZER", cat(path, ":", number, ": '", printable(line), "' is not a merge of two tokens"));
    merges.push_back({line.substr(0, space), line.substr(space + 1)});
  }
  return merges;
}

Json special(const Json& vocab, const char* token, bool lstrip = false) {
  return {{"id", vocab.at(token)}, {"content", token},    {"single_word", false}, {"lstrip", lstrip},
          {"rstrip", false},       {"normalized", false}, {"special", true}};
}

Json bytes(bool trim) { return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", trim}}; }

// Adds CLIP's parts other than vocabulary and merges.
void as_clip(Json& j, const Json& vocab) {
  j["model"]["end_of_word_suffix"] = "</w>";
  j["model"]["unk_token"] = "<|endoftext|>";
  j["normalizer"] = {{"type", "Sequence"},
                     {"normalizers",
                      {{{"type", "NFC"}},
                       {{"type", "Replace"}, {"pattern", {{"Regex", R"(\s+)"}}}, {"content", " "}},
                       {{"type", "Lowercase"}}}}};
  j["pre_tokenizer"] = {{"type", "Sequence"},
                        {"pretokenizers",
                         {{{"type", "Split"},
                           {"pattern", {{"Regex", R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)"}}},
                           {"behavior", "Removed"},
                           {"invert", true}},
                          bytes(true)}}};
  j["post_processor"] = {{"type", "RobertaProcessing"},
                         {"sep", {"<|endoftext|>", vocab["<|endoftext|>"]}},
                         {"cls", {"<|startoftext|>", vocab["<|startoftext|>"]}},
                         {"trim_offsets", false},
                         {"add_prefix_space", false}};
  j["decoder"] = {
      {"type", "Sequence"},
      {"decoders",
       {{{"type", "ByteLevel"}}, {{"type", "Replace"}, {"pattern", {{"String", "</w>"}}}, {"content", " "}}}}};
  j["added_tokens"] = {special(vocab, "<|startoftext|>"), special(vocab, "<|endoftext|>")};
}

void as_roberta(Json& j, const Json& vocab) {
  j["post_processor"] = {{"type", "RobertaProcessing"},
                         {"sep", {"</s>", vocab["</s>"]}},
                         {"cls", {"<s>", vocab["<s>"]}},
                         {"trim_offsets", true},
                         {"add_prefix_space", false}};
  for (const char* const token : {"<s>", "<pad>", "</s>", "<unk>", "<mask>"}) {
    if (vocab.contains(token)) j["added_tokens"].push_back(special(vocab, token, std::string_view(token) == "<mask>"));
  }
}

std::unique_ptr<Tokenizer> open_bpe_files(const std::string& path, const TokenizerOptions&) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const std::string merges = (folder / "merges.txt").string();
  std::error_code error;
  if (!std::filesystem::exists(merges, error))
    fail(Exit::data, "E_TOKENIZER", cat("there is no merges.txt beside '", path, "'"), "both files make the tokenizer");
  const auto file = read_file(path);
  const bool flat = json_levels(file.text()) == 1;
  const Json vocab = flat ? Json::parse(file.text(), nullptr, false) : Json();
  if (!vocab.is_object())
    fail(Exit::data, "E_TOKENIZER", cat(path, ": this is no JSON object of tokens and their ids"));
  Json j = {{"added_tokens", Json::array()},
            {"pre_tokenizer", bytes(true)},
            {"decoder", {{"type", "ByteLevel"}}},
            {"post_processor", bytes(false)},
            {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", read_merges(merges)}}}};
  if (vocab.contains("<|startoftext|>") && vocab.contains("<|endoftext|>") && vocab.contains("a</w>"))
    as_clip(j, vocab);
  else if (vocab.contains("<s>") && vocab.contains("</s>"))
    as_roberta(j, vocab);
  else if (vocab.contains("<|endoftext|>"))
    j["added_tokens"].push_back(special(vocab, "<|endoftext|>"));
  try {
    return tokenizer_from_json(j, folder.string());
  } catch (Error& e) {
    throw e.at(path);
  }
}

const TokenizerRegistration bpe_files_row{{
    .order = 2,
    .names = {"vocab.json"},
    .reads = [](const std::string& name) { return name.ends_with("vocab.json"); },
    .open = open_bpe_files,
    .beside = {"merges.txt"},
}};

}  // namespace

}  // namespace amp
