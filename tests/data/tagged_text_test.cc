// Tagged words: files, tables, and labels aligned with subword tokens as in Hugging Face's run_ner
// (make_tagged_golden.py).
#include "data/tagged_text.h"

#include <catch2/catch_all.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "data/reader.h"
#include "data/subset.h"
#include "data/tokenizers/wordpiece.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;
using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

namespace {

const std::string kFolder = test_data("data/");

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}

WordPiece small() { return WordPiece(Vocab::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\n##s\n", "v.txt")); }

}  // namespace

TEST_CASE("texts of a CoNLL file with a faulty line are left out if they may be", "[tagged]") {
  const std::string bytes = "a\tO\n\nb\tO\nc\nd\tO\n\n-DOCSTART-\ne\tB\n\nf\xff\tO\n\ng\tO\n";
  SkippedRows skipped(2);
  const std::vector<TaggedText> texts = parse_conll(bytes, "f", true, &skipped);
  std::vector<int64_t> lines;
  for (const TaggedText& t : texts) lines.push_back(t.line);
  CHECK(lines == std::vector<int64_t>{1, 8, 12});
  REQUIRE(skipped.rows().size() == 2);
  CHECK(skipped.rows()[0].line == 3);
  CHECK(skipped.rows()[0].reason == "f:4: 'c' is not a word and its tag");
  CHECK(skipped.rows()[1].line == 10);
  CHECK_THAT(skipped.rows()[1].reason, Catch::Matchers::ContainsSubstring("f:10: not UTF-8"));
  SkippedRows one(1);
  expect_error("E_DATA_UTF8", "f:10", [&] { parse_conll(bytes, "f", true, &one); });
  expect_error("E_DATA_UTF8", "f:10", [&] { parse_conll(bytes, "f"); });
  SkippedRows many(9);
  expect_error("E_DATA_EMPTY", "the first: f:1: 'a'", [&] { parse_conll("a\n\nb\n", "f", true, &many); });
  SkippedRows utf16(9);
  expect_error("E_DATA_UTF8", "UTF-16", [&] {
    parse_conll(
        "\xff\xfe"
        "a",
        "f", true, &utf16);
  });
}

TEST_CASE("a word's first piece has its label, as in run_ner") {
  const auto texts = parse_conll(content(kFolder + "tagged.conll"), "tagged.conll");
  REQUIRE(texts.size() == 43);
  std::ifstream golden(kFolder + "tagged.jsonl");
  std::string line;
  std::getline(golden, line);
  const auto classes = nlohmann::json::parse(line).get<Strings>();
  CHECK(find_tags(texts, "tagged.conll") == classes);
  const Vocab vocab = Vocab::read(source_root() + "/models/tweet_sentiment/vocab.txt");
  for (const auto& [lower, length] : {std::pair{true, 24}, {true, 200}, {false, 24}}) {
    WordPieceOptions o;
    o.lower_case = lower;
    const auto got = encode_tagged(texts, {"tagged.conll"}, WordPiece(vocab, o), classes, length);
    REQUIRE(got.size() == texts.size());
    for (size_t i = 0; i < got.size(); ++i) {
      std::getline(golden, line);
      const auto want = nlohmann::json::parse(line);
      REQUIRE(want[0].get<bool>() == lower);
      INFO("text " << i << ", lower case " << lower << ", at most " << length);
      CHECK(Ints(got[i].encoding.ids.begin(), got[i].encoding.ids.end()) == want[2].get<Ints>());
      CHECK(got[i].labels == want[3].get<Ints>());
      CHECK(got[i].line == texts[i].line);
    }
  }
  CHECK_FALSE(std::getline(golden, line));
}

TEST_CASE("files of words and tags") {
  const auto t = parse_conll("\xEF\xBB\xBF-DOCSTART- -X- O\r\n\r\na NN B-x\r\nb VB O\r\n \t\r\n\r\nc d\tO\n", "f");
  REQUIRE(t.size() == 2);
  CHECK(t[0].words == Strings{"a", "b"});
  CHECK(t[0].tags == Strings{"B-x", "O"});
  CHECK(t[0].line == 3);
  CHECK(t[1].words == Strings{"c d"});  // in columns separated by tabs, a word may contain a space
  CHECK(t[1].line == 7);
  expect_error("E_DATA_LABEL", "f:2: 'b' is not a word", [] { parse_conll("a\tO\nb\n", "f"); });
  expect_error("E_DATA_EMPTY", "there is no word", [] { parse_conll("\n\n", "f"); });
  expect_error("E_DATA_UTF8", "f:1", [] { parse_conll("a\xff\tO\n", "f"); });
  expect_error("E_DATA_LABEL", "every word has the tag 'O'", [] { find_tags(parse_conll("a\tO\nb\tO\n", "f"), "f"); });
}

TEST_CASE("tables of words and tags") {
  const Table csv = Table::parse("id,words,ner\n1,a  bs c,O B-x O\n", "t.csv", reader_named("csv"));
  const auto t = tagged_rows(csv, "words", "ner");
  REQUIRE(t.size() == 1);
  CHECK(t[0].words == Strings{"a", "bs", "c"});
  CHECK(t[0].tags == Strings{"O", "B-x", "O"});
  const Table json =
      Table::parse("{\"tokens\": [\"a b\", \"c\"], \"ner_tags\": [0, 3]}\n", "t.jsonl", reader_named("jsonl"));
  const auto j = tagged_rows(json, "tokens", "ner_tags");
  CHECK(j[0].words == Strings{"a b", "c"});
  CHECK(j[0].tags == Strings{"0", "3"});
  const Table uneven = Table::parse("words,ner\na b,O\n", "t.csv", reader_named("csv"));
  expect_error("E_DATA_LABEL", "t.csv:2: 2 words in column 'words', 1 tags",
               [&] { tagged_rows(uneven, "words", "ner"); });
}

TEST_CASE("a share of tagged texts is held out") {
  const auto texts = parse_conll("a\tO\n\nb\tB-x\n\na\tO\nbs\tO\n\nc\tB-x\n", "f");
  TextOptions o;
  o.labels = LabelForm::tokens;
  const Strings classes = {"B-x", "O"};
  const WordPiece w = small();
  const auto data = make_labeled_dataset(encode_tagged(texts, {"f"}, w, classes, 0), {"f"}, w, {{"input_ids"}}, o);
  const SampleSplit split = split_samples(*data, 0.25, 7);
  CHECK(split.held_out.size() == 1);
  CHECK(split.train.size() == 3);
}

TEST_CASE("batches of tagged words are padded with labels that count for nothing") {
  const auto texts = parse_conll("as\tB\nb\tO\n\nc\tO\n", "f");
  const WordPiece w = small();
  const Strings classes = {"B", "O"};
  TextOptions o;
  o.labels = LabelForm::tokens;
  o.classes = classes;
  o.pad_to_multiple = 4;
  const auto data =
      make_labeled_dataset(encode_tagged(texts, {"f"}, w, classes, 0), {"f"}, w, {{"input_ids"}, {"labels"}}, o);
  const Batch b = data->batch(Ints{1, 0});
  CHECK(b.inputs.at("input_ids").to_ints() == Ints{2, 6, 3, 0, 0, 0, 0, 0, 2, 4, 7, 5, 3, 0, 0, 0});
  CHECK(b.labels.dims() == Dims{2, 8});
  const Ints want = {-100, 1, -100, -100, -100, -100, -100, -100, -100, 0, -100, 1, -100, -100, -100, -100};
  CHECK(b.labels.to_ints() == want);
  CHECK(b.inputs.at("labels").to_ints() == want);
  CHECK(b.valid_items == 3);
  CHECK(data->where(1) == "f:4");
  expect_error("E_DATA_LABEL", "f:1: label 'O' is class 1", [&] { data->check_label_range(1); });
  CHECK_NOTHROW(data->check_label_range(2));
  expect_error("E_DATA_LABEL_NEW", "the tag 'B' of the word 'as'",
               [&] { encode_tagged(texts, {"f"}, w, Strings{"O"}, 0); });
}
