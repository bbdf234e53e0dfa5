// Opens SentencePiece's model files, unigram and BPE, and converts them to the JSON of a tokenizer.json as Hugging
// Face's converters do. The file is a Protocol Buffers message, whose few fields are read here by number.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/wire_format.h"
#include "data/tokenizers/json_tokenizer.h"
#include "data/tokenizers/special_names.h"

namespace amp {

namespace {

using Json = nlohmann::json;
const std::string kSpaceMark = "\u2581";

enum PieceType : uint64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kByte = 6 };

// Largest number of bytes of a token. It is limited because merges_of() tries all ways to split a token in two.
// Trainers limit tokens to 16 characters by default.
constexpr size_t kLongestPiece = 4096;

struct SpmPiece {
  std::string text;
  float score = 0;
  uint64_t type = kNormal;
};

struct Spm {
  std::vector<SpmPiece> pieces;
  uint64_t kind = 1;  // 1: unigram, 2: BPE
  bool byte_fallback = false, dummy_prefix = true, remove_spaces = true;
  std::string charsmap;
};

Spm parse(std::string_view bytes, const std::string& path) {
  Spm m;
  bool whole = true;
  whole = each_field(bytes, [&](uint64_t field, uint64_t, std::string_view part) {
    if (field == 1) {
      SpmPiece p;
      whole &= each_field(part, [&](uint64_t f, uint64_t n, std::string_view b) {
        if (f == 1) p.text = b;
        if (f == 2 && b.size() == 4) std::memcpy(&p.score, b.data(), 4);
        if (f == 3) p.type = n;
      });
      m.pieces.push_back(std::move(p));
    } else if (field == 2) {
      each_field(part, [&](uint64_t f, uint64_t n, std::string_view) {
        if (f == 3) m.kind = n;
        if (f == 35) m.byte_fallback = n != 0;
      });
    } else if (field == 3) {
      each_field(part, [&](uint64_t f, uint64_t n, std::string_view b) {
        if (f == 2) m.charsmap = b;
        if (f == 3) m.dummy_prefix = n != 0;
        if (f == 4) m.remove_spaces = n != 0;
      });
    }
  });
  if (!whole || m.pieces.empty())
    fail(Exit::data, "E_TOKENIZER", cat(path, ": this is no SentencePiece model"),
         "spiece.model or tokenizer.model, as its trainer wrote it");
  for (const SpmPiece& p : m.pieces) {
    if (find_invalid_utf8(p.text) != std::string::npos)
      fail(Exit::data, "E_TOKENIZER", cat(path, ": a token is not UTF-8"));
    if (p.text.size() > kLongestPiece)
      fail(Exit::data, "E_TOKENIZER",
           cat(path, ": a token has ", p.text.size(), " bytes, ", kLongestPiece, " is the most"));
  }
  if (m.kind != 1 && m.kind != 2)
    fail(Exit::data, "E_TOKENIZER", cat(path, ": SentencePiece models of words and characters are not supported"));
  return m;
}

// Returns all merges of two tokens to a third token, best first.
Json merges_of(const std::vector<SpmPiece>& pieces, const Json& ids) {
  struct Merge {
    std::string left, right;
    float score;
    int64_t left_id, right_id, left_length, right_length;
  };
  std::vector<Merge> all;
  for (const SpmPiece& p : pieces) {
    std::vector<Merge> own;
    for (size_t at = 1; at < p.text.size(); ++at) {
      if ((static_cast<unsigned char>(p.text[at]) & 0xc0u) == 0x80u) continue;
      const std::string left = p.text.substr(0, at), right = p.text.substr(at);
      if (ids.contains(left) && ids.contains(right))
        own.push_back({left, right, p.score, ids[left], ids[right], count_code_points(left), count_code_points(right)});
    }
    std::stable_sort(own.begin(), own.end(), [](const Merge& a, const Merge& b) {
      return std::pair(a.left_id, a.right_id) < std::pair(b.left_id, b.right_id);
    });
    all.insert(all.end(), own.begin(), own.end());
  }
  std::stable_sort(all.begin(), all.end(), [](const Merge& a, const Merge& b) {
    return std::tuple(a.score, a.left_length, a.right_length) > std::tuple(b.score, b.left_length, b.right_length);
  });
  Json out = Json::array();
  for (const Merge& m : all) out.push_back({m.left, m.right});
  return out;
}

Json model_of(const Spm& m) {
  Json ids = Json::object(), vocab = Json::array();
  int64_t unknown = 0;
  for (size_t i = 0; i < m.pieces.size(); ++i) {
    ids[m.pieces[i].text] = i;
    vocab.push_back({m.pieces[i].text, static_cast<double>(m.pieces[i].score)});
    if (m.pieces[i].type == kUnknown) unknown = static_cast<int64_t>(i);
  }
  if (m.kind == 1)
    return {{"type", "Unigram"}, {"vocab", vocab}, {"unk_id", unknown}, {"byte_fallback", m.byte_fallback}};
  return {{"type", "BPE"},
          {"vocab", ids},
          {"merges", merges_of(m.pieces, ids)},
          {"unk_token", m.pieces[static_cast<size_t>(unknown)].text},
          {"fuse_unk", true},
          {"byte_fallback", m.byte_fallback}};
}

Json steps_before(const Spm& m) {
  Json steps = Json::array();
  if (!m.charsmap.empty()) steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(m.charsmap)}});
  if (m.remove_spaces) {
    steps.push_back({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
    steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
  }
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

// Returns the template of special tokens, or null. It depends on the model's family, which the vocabulary's special
// tokens identify.
Json frame_of(const Json& ids) {
  const auto special = [&](const char* token, int type) {
    return Json{{"SpecialToken", {{"id", token}, {"type_id", type}}}};
  };
  const auto text = [](const char* which, int type) { return Json{{"Sequence", {{"id", which}, {"type_id", type}}}}; };
  Json j = {{"type", "TemplateProcessing"},
            {"single", Json::array()},
            {"pair", Json::array()},
            {"special_tokens", Json::object()}};
  for (const char* const token : {"[CLS]", "[SEP]", "<cls>", "<sep>", "<s>", "</s>"}) {
    if (ids.contains(token)) j["special_tokens"][token] = {{"ids", {ids[token]}}};
  }
  if (ids.contains("[CLS]") && ids.contains("[SEP]")) {  // ALBERT, DeBERTa
    j["single"] = {special("[CLS]", 0), text("A", 0), special("[SEP]", 0)};
    j["pair"] = {special("[CLS]", 0), text("A", 0), special("[SEP]", 0), text("B", 1), special("[SEP]", 1)};
  } else if (ids.contains("<cls>") && ids.contains("<sep>")) {  // XLNet
    j["single"] = {text("A", 0), special("<sep>", 0), special("<cls>", 2)};
    j["pair"] = {text("A", 0), special("<sep>", 0), text("B", 1), special("<sep>", 1), special("<cls>", 2)};
  } else if (ids.contains("<s>") && !ids.contains("<pad>")) {  // Llama
    j["single"] = {special("<s>", 0), text("A", 0)};
    j["pair"] = {special("<s>", 0), text("A", 0), special("<s>", 1), text("B", 1)};
  } else if (ids.contains("</s>")) {  // T5
    j["single"] = {text("A", 0), special("</s>", 0)};
    j["pair"] = {text("A", 0), special("</s>", 0), text("B", 0), special("</s>", 0)};
  } else {
    return nullptr;
  }
  return j;
}

std::unique_ptr<Tokenizer> open_sentencepiece(const std::string& path, const TokenizerOptions&) {
  const auto file = read_file(path);
  const Spm m = parse(file.text(), path);
  Json j = {{"model", model_of(m)}, {"normalizer", steps_before(m)}, {"added_tokens", Json::array()}};
  Json ids = Json::object();
  for (size_t i = 0; i < m.pieces.size(); ++i) {
    const SpmPiece& p = m.pieces[i];
    if (p.type == kControl || p.type == kUnknown) {
      j["added_tokens"].push_back({{"id", i}, {"content", p.text}, {"normalized", false}, {"special", true}});
    }
    ids[p.text] = i;
  }
  if (m.kind == 1) {
    j["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", kSpaceMark}, {"prepend_scheme", m.dummy_prefix ? "always" : "never"}};
    j["decoder"] = j["pre_tokenizer"];
  } else {
    if (m.dummy_prefix) j["normalizer"]["normalizers"].push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
    j["normalizer"]["normalizers"].push_back(
        {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}});
    j["decoder"] = {{"type", "Sequence"},
                    {"decoders",
                     {{{"type", "Replace"}, {"pattern", {{"String", kSpaceMark}}}, {"content", " "}},
                      {{"type", "ByteFallback"}},
                      {{"type", "Fuse"}},
                      {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  }
  j["post_processor"] = frame_of(ids);
  try {
    return tokenizer_from_json(j, std::filesystem::path(path).parent_path().string());
  } catch (Error& e) {
    throw e.at(path);
  }
}

const TokenizerRegistration sentencepiece_row{{
    .order = 3,
    .names = {"spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "spm.model"},
    .reads = [](const std::string& name) { return name.ends_with(".model") || name.ends_with(".spm"); },
    .open = open_sentencepiece,
}};

}  // namespace

}  // namespace amp
