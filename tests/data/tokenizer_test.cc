// Tokenizers against Hugging Face's (files and goldens: tests/data/data/make_tokenizer_golden.py), and errors.
#include "data/tokenizer.h"

#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/support.h"

using namespace amp;

namespace {

const std::string kFolder = test::test_data("data/tokenizers/");

const Tokenizer& golden(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Tokenizer>> opened;
  auto& t = opened[name];
  if (!t) t = open_tokenizer(kFolder + name + ".json");
  return *t;
}

std::vector<int32_t> flat(const Encoding& e) {
  std::vector<int32_t> out;
  for (const auto& [begin, end] : e.places) out.insert(out.end(), {begin, end});
  return out;
}

std::string refusal(const std::string& name, const std::string& text) {
  const test::TempDir folder;
  std::ofstream(folder / name) << text;
  try {
    open_tokenizer(folder / name);
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::data);
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("ids, offsets, type ids and texts are Hugging Face's", "[tokenizer]") {
  std::ifstream in(kFolder + "lines.jsonl");
  std::map<std::string, int> seen;
  for (std::string line; std::getline(in, line);) {
    const auto j = nlohmann::json::parse(line);
    const Tokenizer& t = golden(j["name"]);
    const std::string text = j["text"];
    const Encoding e =
        j["pair"].is_null() ? t.encode(text, 0, true) : t.encode_pair(text, j["pair"].get<std::string>(), 0, true);
    INFO(j["name"].get<std::string>() << ": " << j["text"].dump() << " " << j["pair"].dump());
    CHECK(e.ids == j["ids"].get<std::vector<int32_t>>());
    CHECK(flat(e) == j["offsets"].get<std::vector<int32_t>>());
    CHECK(e.types == j["types"].get<std::vector<uint8_t>>());
    CHECK(t.decode(e.ids) == j["decoded"].get<std::string>());
    ++seen[j["name"]];
  }
  CHECK(seen.size() == 10);
  for (const auto& [name, n] : seen) CHECK(n > 140);
}

TEST_CASE("SentencePiece's models give its ids", "[tokenizer]") {
  std::ifstream in(kFolder + "spm_lines.jsonl");
  std::map<std::string, std::unique_ptr<Tokenizer>> opened;
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines) {
    const auto j = nlohmann::json::parse(line);
    auto& t = opened[j["name"]];
    if (!t) t = open_tokenizer(kFolder + j["name"].get<std::string>() + ".model");
    INFO(line);
    CHECK(t->tokenize(j["text"].get<std::string>()) == j["ids"].get<std::vector<int32_t>>());
  }
  CHECK(lines > 130);
  CHECK(opened["spm_bpe"]->special().bos == 1);
  CHECK(opened["spm_bpe"]->encode("a").ids.front() == 1);  // begins with <s>, as Llama's
}

TEST_CASE("vocab.json with merges.txt is the tokenizer that tokenizer.json is", "[tokenizer]") {
  std::ifstream in(kFolder + "roberta.json");
  const auto model = nlohmann::json::parse(in)["model"];
  const test::TempDir folder;
  std::ofstream(folder / "vocab.json") << model["vocab"];
  std::ofstream merges(folder / "merges.txt");
  merges << "#version: 0.2\n";
  for (const auto& m : model["merges"]) merges << m[0].get<std::string>() << ' ' << m[1].get<std::string>() << '\n';
  merges.close();
  const auto t = open_tokenizer(folder.path.string());
  const std::string text = "so happy today, isn't it? \xF0\x9F\x98\x81 <mask>";
  CHECK(t->encode(" " + text).ids == golden("roberta").encode(text).ids);  // roberta inserts the space
  CHECK(t->encode_pair(" a", " b").ids == golden("roberta").encode_pair("a", "b").ids);
}

TEST_CASE("a byte order mark is no part of the first token or merge", "[tokenizer]") {
  const std::string mark = "\xef\xbb\xbf";
  const test::TempDir f;
  const auto write = [&](const std::string& path, const std::string& bytes) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  };
  const std::string vocabulary = "good\n[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nday\n";
  write(f / "v.txt", vocabulary);
  write(f / "m.txt", mark + vocabulary);
  CHECK(open_tokenizer(f / "m.txt")->encode("good day").ids == open_tokenizer(f / "v.txt")->encode("good day").ids);
  const std::string ids = R"({"<|endoftext|>": 0, "w": 1, "o": 2, "wo": 3})";
  for (const std::string merges : {"#version: 0.2\nw o\n", "w o\n"}) {
    write(f / "plain/vocab.json", ids);
    write(f / "plain/merges.txt", merges);
    write(f / "marked/vocab.json", mark + ids);
    write(f / "marked/merges.txt", mark + merges);
    CHECK(open_tokenizer(f / "marked")->encode("wo").ids == std::vector<int32_t>{3});
    CHECK(open_tokenizer(f / "plain")->encode("wo").ids == std::vector<int32_t>{3});
  }
}

TEST_CASE("ids without offsets are the same, and longer texts are cut inside the frame", "[tokenizer]") {
  const Tokenizer& t = golden("roberta");
  const std::string text = "one two three four five six seven eight";
  const Encoding whole = t.encode(text);
  CHECK(t.encode(text, 0, true).ids == whole.ids);
  const Encoding cut = t.encode(text, 6);
  REQUIRE(cut.ids.size() == 6);
  CHECK(std::equal(cut.ids.begin(), cut.ids.end() - 1, whole.ids.begin()));
  CHECK(cut.ids.back() == t.special().sep);
  CHECK(t.encode_pair(text, "nine", 8).ids.size() == 8);
  CHECK_THROWS_AS(t.encode(text, 1), Error);
  CHECK(t.special().cls == 0);
  CHECK(t.special().mask == t.find("<mask>"));
  CHECK(t.pad() == 1);
  CHECK(t.token(t.find("<pad>")) == "<pad>");
}

TEST_CASE("the file of a folder is found", "[tokenizer]") {
  const std::string models = test::source_root() + "/models/tweet_sentiment";
  CHECK(find_tokenizer(models) == models + "/vocab.txt");
  CHECK(open_tokenizer(models)->special().cls >= 0);
  CHECK(find_tokenizer(test::source_root() + "/docs").empty());
  CHECK_THROWS_AS(open_tokenizer(test::source_root() + "/docs"), Error);
}

TEST_CASE("files that are no tokenizer are refused", "[tokenizer]") {
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(refusal("a.json", "{"), ContainsSubstring("no tokenizer.json"));
  CHECK_THAT(refusal("b.json", "{}"), ContainsSubstring("\"model\""));
  CHECK_THAT(refusal("c.json", R"({"model": {"type": "New", "vocab": {"a": 0}}})"), ContainsSubstring("'New'"));
  CHECK_THAT(refusal("d.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}})"),
             ContainsSubstring("merge 1"));
  CHECK_THAT(refusal("e.json", R"({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}})"),
             ContainsSubstring("no id"));
  CHECK_THAT(refusal("f.json", R"({"normalizer": {"type": "Replace", "pattern": {"Regex": "("}, "content": ""},
                                   "model": {"type": "WordLevel", "vocab": {"<unk>": 0}}})"),
             ContainsSubstring("not understood"));
  CHECK_THAT(refusal("g.json", R"({"model": {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 3}})"),
             ContainsSubstring("unk_id 3"));
  CHECK_THAT(refusal("g2.json", R"({"pre_tokenizer": {"type": "FixedLength", "length": 0},
                                    "model": {"type": "WordLevel", "vocab": {"<unk>": 0}}})"),
             ContainsSubstring("length 0"));
  CHECK_THAT(refusal("h.model", "\x0a\xff\xff"), ContainsSubstring("no SentencePiece model"));
  CHECK_THAT(refusal("vocab.json", "{}"), ContainsSubstring("merges.txt"));
}

TEST_CASE("files that would take the stack, the memory or forever are refused", "[tokenizer]") {
  using Catch::Matchers::ContainsSubstring;
  const auto model = [](const std::string& vocab) {
    return R"({"model": {"type": "WordLevel", "vocab": {"<unk>": 0)" + vocab + "}}";
  };
  std::string steps, closing;
  for (int i = 0; i < 100'000; ++i) {
    steps += R"({"type": "Sequence", "normalizers": [)";
    closing += "]}";
  }
  CHECK_THAT(refusal("deep.json", model("") + R"(, "normalizer": )" + steps + closing + "}"),
             ContainsSubstring("nest deeper"));
  const std::string deep_id = R"(, "a": )" + std::string(200'000, '[') + std::string(200'000, ']');
  CHECK_THAT(refusal("deep_id.json", model(deep_id) + "}"), ContainsSubstring("nest deeper"));
  CHECK_THAT(refusal("ids.json", model(R"(, "a": 99999999)") + "}"), ContainsSubstring("has no id"));
  CHECK_THAT(refusal("added.json", model("") + R"(, "added_tokens": [{"id": 99999999, "content": "a"}]})"),
             ContainsSubstring("has the id 99999999"));
  const std::string long_piece(100'000, 'a');  // field 1 inside field 1; each length is a varint
  CHECK_THAT(refusal("long.model", std::string("\x0a\xa4\x8d\x06\x0a\xa0\x8d\x06", 8) + long_piece),
             ContainsSubstring("100000 bytes"));
}

TEST_CASE("a token of any length is found in a unigram vocabulary", "[tokenizer]") {
  const test::TempDir t;
  const std::string word = "b" + std::string(300'000, 'a');
  std::ofstream(t / "tokenizer.json") << R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], [")"
                                      << word << R"(", -1], ["a", -2]]}})";
  CHECK(open_tokenizer(t / "tokenizer.json")->tokenize(word + "a") == std::vector<int32_t>{1, 2});
}

TEST_CASE("a text that steps make longer and longer is refused", "[tokenizer]") {
  const test::TempDir t;
  std::string steps;
  const std::string more(1000, 'a');
  for (int i = 0; i < 60; ++i)
    steps += cat(i > 0 ? "," : "", R"({"type": "Replace", "pattern": {"String": "a"}, "content": ")", more, R"("})");
  std::ofstream(t / "tokenizer.json")
      << R"({"model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0}}, "normalizer": {"type": "Sequence", "normalizers": [)"
      << steps << R"(]}, "decoder": {"type": "Sequence", "decoders": [)" << steps << "]}}";
  const auto tokenizer = open_tokenizer(t / "tokenizer.json");
  CHECK_THROWS_AS(tokenizer->tokenize("a"), Error);
  CHECK_THROWS_AS(tokenizer->decode(std::vector<int32_t>{0}), Error);
}
