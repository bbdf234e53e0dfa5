// The tokenizer against Hugging Face's (goldens: tests/data/data/make_wordpiece_golden.py).
#include "data/tokenizers/wordpiece.h"

#include <catch2/catch_all.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/utf8.h"
#include "data/table.h"
#include "tests/support.h"

using namespace amp;

namespace {

const std::string kGolden = test::test_data("data/");
const std::string kTweets = test::source_root() + "/models/tweet_sentiment/";

const WordPiece& uncased() {
  static const WordPiece w(Vocab::read(kTweets + "vocab.txt"));
  return w;
}

const WordPiece& cased() {
  static const WordPiece w(Vocab::read(kTweets + "vocab.txt"), {.lower_case = false});
  return w;
}

struct Fnv {
  uint64_t h = 0xCBF29CE484222325;
  void add(std::string_view s) {
    for (const char c : s) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }
  std::string hex() const {
    char buffer[17];
    std::snprintf(buffer, sizeof buffer, "%016llx", static_cast<unsigned long long>(h));
    return buffer;
  }
};

std::string utf8(uint32_t c) {
  std::string s;
  append_utf8(s, c);
  return s;
}

std::string block_hash(const WordPiece& w, uint32_t start) {
  Fnv fnv;
  for (uint32_t c = start; c < start + 4096; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    for (const std::string& word : w.words("a" + utf8(c) + "b")) fnv.add(word + "\n");
  }
  return fnv.hex();
}

std::vector<nlohmann::json> json_lines(const std::string& path) {
  std::ifstream in(path);
  std::vector<nlohmann::json> out;
  for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

void expect_vocab_error(const std::string& bytes, const std::string& part) {
  try {
    Vocab::parse(bytes, "v.txt");
    FAIL("no error about " << part);
  } catch (const Error& e) {
    CHECK(e.id() == "E_VOCAB");
    CHECK(e.exit() == Exit::data);
    CHECK_THAT(e.fact(), Catch::Matchers::ContainsSubstring(part));
  }
}

}  // namespace

TEST_CASE("every code point splits words as the reference does") {
  std::ifstream in(kGolden + "wordpiece_code_points.txt");
  std::string start, lower, kept;
  int blocks = 0;
  while (in >> start >> lower >> kept) {
    INFO("block of 4096 from U+" << start);
    const auto first = static_cast<uint32_t>(std::stoul(start, nullptr, 16));
    CHECK(block_hash(uncased(), first) == lower);
    CHECK(block_hash(cased(), first) == kept);
    ++blocks;
  }
  CHECK(blocks == 272);
}

TEST_CASE("kept combining marks are ordered as the reference does") {
  std::ifstream in(kGolden + "wordpiece_mark_pairs.txt");
  std::string hash, point;
  in >> hash;
  std::vector<std::string> marks;
  while (in >> point) marks.push_back(utf8(static_cast<uint32_t>(std::stoul(point, nullptr, 16))));
  REQUIRE(marks.size() > 100);
  Fnv fnv;
  for (const std::string& a : marks) {
    for (const std::string& b : marks) {
      for (const std::string& w : uncased().words("a" + a + b)) fnv.add(w);
      fnv.add("\n");
    }
  }
  CHECK(fnv.hex() == hash);
}

TEST_CASE("hard lines have the reference's ids") {
  const auto lines = json_lines(kGolden + "wordpiece_lines.jsonl");
  REQUIRE(lines.size() > 300);
  for (const auto& line : lines) {
    INFO(line.dump());
    const Encoding e = uncased().encode(line["text"].get<std::string>());
    CHECK(e.ids == line["ids"].get<std::vector<int32_t>>());
    CHECK(e.types == std::vector<uint8_t>(e.ids.size(), 0));
  }
}

TEST_CASE("pairs are joined and cut as the reference does") {
  const auto lines = json_lines(kGolden + "wordpiece_pairs.jsonl");
  REQUIRE(lines.size() == 250);
  for (const auto& line : lines) {
    INFO(line.dump());
    const Encoding e = uncased().encode_pair(line["a"].get<std::string>(), line["b"].get<std::string>(), line["max"]);
    CHECK(e.ids == line["ids"].get<std::vector<int32_t>>());
    CHECK(e.types == line["types"].get<std::vector<uint8_t>>());
  }
}

TEST_CASE("two thousand tweets have the reference's ids") {
  std::ifstream in(kGolden + "wordpiece_dev.txt");
  int64_t rows, ids;
  std::string hash;
  in >> rows >> ids >> hash;
  const Table dev = Table::read(kTweets + "dev.csv");
  CHECK(dev.rows() == rows);
  Fnv fnv;
  int64_t count = 0;
  for (int64_t r = 0; r < dev.rows(); ++r) {
    const Encoding e = uncased().encode(dev.text(r, dev.column("text")), 32);
    count += static_cast<int64_t>(e.ids.size());
    for (size_t i = 0; i < e.ids.size(); ++i) fnv.add((i ? " " : "") + std::to_string(e.ids[i]));
    fnv.add("\n");
  }
  CHECK(count == ids);
  CHECK(fnv.hex() == hash);
}

TEST_CASE("a cut that leaves no room and text that is not UTF-8 are errors") {
  CHECK(uncased().encode("hello there", 2).ids == std::vector<int32_t>{101, 102});
  CHECK_THROWS_AS(uncased().encode("hello", 1), Error);
  CHECK_THROWS_AS(uncased().encode_pair("hello", "there", 2), Error);
  CHECK_THROWS_AS(uncased().encode("caf\xe9"), Error);
  CHECK_THROWS_AS(uncased().encode("\xed\xa0\x80"), Error);      // a surrogate
  CHECK_THROWS_AS(uncased().encode("\xc0\xaf"), Error);          // overlong
  CHECK_THROWS_AS(uncased().encode("\xf4\x90\x80\x80"), Error);  // above U+10FFFF
}

TEST_CASE("a vocabulary that cannot be right is refused with its line") {
  const std::string good = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\n##s\n";
  const WordPiece w(Vocab::parse(good, "v.txt"));
  CHECK(w.encode("the thes [MASK] xs").ids == std::vector<int32_t>{2, 4, 4, 5, 1, 1, 1, 1, 3});
  CHECK(w.vocab().mask() == -1);
  CHECK(Vocab::parse("[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\na", "v.txt").find("a") == 4);
  expect_vocab_error("[PAD]\n[CLS]\n[SEP]\nthe\n", "v.txt:4: the file ends and none of its 4 lines is [UNK]");
  expect_vocab_error("[UNK]\n[CLS]\n[SEP]\nthe\n", "is [PAD]");
  expect_vocab_error(good + "the\n", "v.txt:7: token 'the' is already on line 5");
  expect_vocab_error("[PAD]\n\n[UNK]\n[CLS]\n[SEP]\n", "v.txt:2: empty line");
  expect_vocab_error("", "none of its 0 lines");
}
