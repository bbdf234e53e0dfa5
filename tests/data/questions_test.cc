// Question answering samples: ids, windows, positions and labels as in Hugging Face's run_qa
// (make_questions_golden.py).
#include "data/questions.h"

#include <catch2/catch_all.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "data/reader.h"
#include "data/subset.h"
#include "data/tokenizers/wordpiece.h"
#include "tests/support.h"

using namespace amp;
using Ints = std::vector<int64_t>;
using nlohmann::json;

namespace {

const std::string kFolder = test::test_data("data/");

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.id();
  }
  return "none";
}

}  // namespace

TEST_CASE("samples of questions are run_qa's") {
  AnswerKey key = parse_squad(content(kFolder + "questions.json"), "questions.json");
  REQUIRE(key.questions.size() == 12);
  const Vocab vocab = Vocab::read(test::source_root() + "/models/tweet_sentiment/vocab.txt");
  std::ifstream golden(kFolder + "questions.jsonl");
  std::string line;
  size_t windows = 0;
  for (const auto& [lower, length, stride] : {std::tuple{true, 48, 16}, {true, 200, 32}, {false, 64, 8}}) {
    WordPieceOptions o;
    o.lower_case = lower;
    const std::vector<LabeledText> got = encode_questions(key, WordPiece(vocab, o), length, stride);
    REQUIRE(got.size() == key.windows.size());
    size_t at = 0;
    for (size_t q = 0; q < key.questions.size(); ++q) {
      std::getline(golden, line);
      const json want = json::parse(line);
      REQUIRE(want[1].get<int>() == length);
      for (const json& row : want[3]) {
        INFO("question " << key.questions[q].id << ", lower case " << lower << ", at most " << length);
        REQUIRE(at < got.size());
        CHECK(key.windows[at].question == q);
        CHECK(Ints(got[at].encoding.ids.begin(), got[at].encoding.ids.end()) == row[0].get<Ints>());
        CHECK(got[at].labels == row[1].get<Ints>());
        CHECK(json(key.windows[at].parts) == row[2]);
        if (got[at].labels[0] > 0) {
          const std::string text = key.text(static_cast<int64_t>(at), got[at].labels[0], got[at].labels[1]);
          CHECK(text.find(key.questions[q].answers[0].text) != std::string::npos);
        }
        ++at;
      }
    }
    CHECK(at == got.size());
    windows += at;
  }
  CHECK_FALSE(std::getline(golden, line));
  CHECK(windows > 3 * key.questions.size());  // some passages were cut
}

TEST_CASE("a share of questions is held out by passage, with all of its windows") {
  const WordPiece w(Vocab::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n", "v.txt"));
  const Table rows =
      Table::parse("q,t\na,a b a b a b a b\nb,b\na,a a\nb,b b a a b b a a\n", "q.csv", reader_named("csv"));
  auto key = std::make_shared<AnswerKey>(question_rows(rows, "q", "t", ""));
  key->questions.push_back({"4", "b", 0, {}, 6, 0});  // another question about the first passage
  TextOptions o;
  o.labels = LabelForm::spans;
  auto texts = encode_questions(*key, w, 8, 1);
  const auto data = make_labeled_dataset(std::move(texts), {"q.csv"}, w, {{"input_ids"}}, o, key);
  REQUIRE(data->size() > 5);
  const SampleSplit split = split_samples(*data, 0.5, 7);
  const auto passages = [&](const Ints& samples) {
    std::set<size_t> out;
    for (const int64_t s : samples) out.insert(key->questions[key->windows[static_cast<size_t>(s)].question].passage);
    return out;
  };
  const std::set<size_t> out = passages(split.held_out), in = passages(split.train);
  CHECK(out.size() == 2);
  CHECK(in.size() == 2);
  for (const size_t p : out) CHECK_FALSE(in.contains(p));
  CHECK(static_cast<int64_t>(split.train.size() + split.held_out.size()) == data->size());
}

TEST_CASE("pieces are the ids with the places they come from") {
  const WordPiece w(Vocab::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n##s\ne\n", "v.txt"));
  const std::string text = "  as\u00e9 [SEP]zz b";
  const std::vector<Piece> p = w.pieces(text);
  std::vector<int32_t> ids;
  for (const Piece& x : p) ids.push_back(x.id);
  CHECK(ids == w.tokenize(text));
  CHECK(ids == std::vector<int32_t>{1, 3, 1, 5});  // "ase" has no piece for its end
  const auto places = [&](size_t i) { return std::pair(p[i].begin, p[i].end); };
  CHECK(places(0) == std::pair(2, 5));
  CHECK(places(1) == std::pair(6, 11));
  CHECK(places(2) == std::pair(11, 13));
  CHECK(places(3) == std::pair(14, 15));
}

TEST_CASE("what is not SQuAD's JSON is refused") {
  const auto with = [](const std::string& answers) {
    return R"({"data": [{"paragraphs": [{"context": "été x", "qas": [{"id": "q", "question": "?", "answers": )" +
           answers + "}]}]}]}";
  };
  const auto parse = [](const std::string& text) { return refusal([&] { parse_squad(text, "f"); }); };
  CHECK(parse(with(R"([{"text": "x", "answer_start": 4}])")) == "none");
  CHECK(parse(with(R"([{"text": "x", "answer_start": 5}])")) == "E_DATA_LABEL");
  CHECK(parse(with(R"([{"text": "x", "answer_start": -1}])")) == "E_DATA_LABEL");
  CHECK(parse(with(R"([{"text": "", "answer_start": 0}])")) ==
        "E_DATA_LABEL");  // all rows of the published TyDi QA dev file have this form
  CHECK(parse(with(R"([{"text": "", "answer_start": 0}, {"text": "x", "answer_start": 4}])")) == "none");
  CHECK(parse(with("[]")) == "E_DATA_LABEL");
  CHECK(parse(with(R"([{"text": "x"}])")) == "E_DATA_JSON");
  // The time must be linear in the size of the file, even if every answer is at the end of a long passage.
  const std::string passage(500'000, 'b');
  std::string answers;
  for (int i = 0; i < 5000; ++i)
    answers += cat(i == 0 ? "[" : ",", R"({"text": "b", "answer_start": )", passage.size() - 1, "}");
  CHECK(parse(cat(R"({"data": [{"paragraphs": [{"context": ")", passage,
                  R"(", "qas": [{"id": "q", "question": "?", "answers": )", answers, "]}]}]}]}")) == "none");
  CHECK(parse("{\"data\": []}") == "E_DATA_EMPTY");
  CHECK(parse("[1]") == "E_DATA_JSON");
  CHECK(parse("{") == "E_DATA_JSON");
}

TEST_CASE("questions without an answer are read where they may be, and point at [CLS]") {
  const auto with = [](const std::string& more) {
    return R"({"data": [{"paragraphs": [{"context": "a b", "qas": [{"id": "q", "question": "a", )" + more + "}]}]}]}";
  };
  const WordPiece w(Vocab::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n", "v.txt"));
  for (const char* none : {R"("answers": [])", R"("is_impossible": true, "answers": [])",
                           R"("is_impossible": true, "plausible_answers": [{"text": "b", "answer_start": 2}])"}) {
    INFO(none);
    AnswerKey key = parse_squad(with(none), "f", AnswersAre::given_or_no);
    REQUIRE(key.questions.size() == 1);
    CHECK(key.questions[0].answers.empty());
    const auto texts = encode_questions(key, w, 0, 8);
    CHECK(texts.at(0).labels == Ints{0, 0});
    CHECK(key.windows.at(0).none == 0);
    CHECK(parse_squad(with(none), "f", AnswersAre::unread).questions.size() == 1);
  }
  CHECK(refusal([&] { parse_squad(with(R"("answers": [])"), "f"); }) == "E_DATA_LABEL");
  AnswerKey one = parse_squad(with(R"("is_impossible": false, "answers": [{"text": "b", "answer_start": 2}])"), "f",
                              AnswersAre::given_or_no);
  CHECK(encode_questions(one, w, 0, 8).at(0).labels == Ints{4, 4});
}

TEST_CASE("a dataset of questions knows their answers") {
  const WordPiece w(Vocab::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\nd\n", "v.txt"));
  auto key = std::make_shared<AnswerKey>(parse_squad(
      R"({"data": [{"paragraphs": [{"context": "a b c d", "qas": [{"id": "q", "question": "a", "answers": [{"text": "b c", "answer_start": 2}]}]}]}]})",
      "f"));
  TextOptions o;
  o.labels = LabelForm::spans;
  std::vector<LabeledText> texts = encode_questions(*key, w, 0, 8);
  const auto data = make_labeled_dataset(texts, {"f"}, w, {{"input_ids"}, {"token_type_ids"}}, o, key);
  const Batch b = data->batch(Ints{0});
  CHECK(b.inputs.at("input_ids").to_ints() == Ints{2, 4, 3, 4, 5, 6, 7, 3});
  CHECK(b.inputs.at("token_type_ids").to_ints() == Ints{0, 0, 0, 1, 1, 1, 1, 1});
  CHECK(b.labels.dims() == Dims{1, 2});
  CHECK(b.labels.to_ints() == Ints{4, 5});
  CHECK(b.samples == Ints{0});
  REQUIRE(data->answers());
  CHECK(data->answers()->text(0, 4, 5) == "b c");
  CHECK(data->answers()->text(0, 2, 5).empty());
  CHECK(data->answers()->text(0, 5, 4).empty());
  CHECK(refusal([&] { encode_questions(*key, w, 7, 8); }) == "E_SEQ_LEN");
}

TEST_CASE("questions of SQuAD's JSON that cannot be read are left out if they may be", "[questions]") {
  const auto qa = [](const std::string& id, const std::string& answer, int at) {
    return cat(R"({"id": ")", id, R"(", "question": "?", "answers": [{"text": ")", answer, R"(", "answer_start": )", at,
               "}]}");
  };
  const std::string text =
      cat(R"({"data": [{"paragraphs": [{"context": "a b", "qas": [)", qa("1", "a", 0), ",", qa("2", "z", 0),
          R"(,{"id": "3", "question": "?"},7,{"id": "5", "question": "?", "answers": []},)", qa("6", "b", 2),
          R"(]}, {"qas": [)", qa("7", "c", 0), "]}, 8, {\"context\": \"c\", \"qas\": [", qa("9", "c", 0),
          R"(]}]}, {}, {"paragraphs": [{"context": "d", "qas": [)", qa("11", "d", 0), "]}]}]}");
  SkippedRows skipped(7);
  const AnswerKey key = parse_squad(text, "f", AnswersAre::given, &skipped);
  std::vector<std::string> ids;
  for (const Question& q : key.questions) {
    ids.push_back(q.id);
    CHECK(q.line == std::stoll(q.id));
    CHECK(key.passages.at(q.passage).find(q.answers.at(0).text) != std::string::npos);
  }
  CHECK(ids == std::vector<std::string>{"1", "6", "9", "11"});
  std::vector<int64_t> lines;
  for (const SkippedRow& row : skipped.rows()) lines.push_back(row.line);
  CHECK(lines == std::vector<int64_t>{2, 3, 4, 5, 7, 8, 10});
  CHECK(skipped.rows()[0].reason == "f: question '2' has the answer 'z', which is not at character 0 of its context");
  CHECK(skipped.rows()[2].reason.starts_with("f: question 4 is not in SQuAD's form"));
  SkippedRows six(6);
  CHECK(refusal([&] { parse_squad(text, "f", AnswersAre::given, &six); }) == "E_DATA_JSON");
  CHECK(refusal([&] { parse_squad(text, "f"); }) == "E_DATA_LABEL");
  SkippedRows all(9);
  CHECK(refusal([&] {
          parse_squad(R"({"data": [{"paragraphs": [{"qas": [{"id": "1"}]}]}]})", "f", AnswersAre::given, &all);
        }) == "E_DATA_EMPTY");
  SkippedRows syntax(9);
  CHECK(refusal([&] { parse_squad("{", "f", AnswersAre::given, &syntax); }) == "E_DATA_JSON");
}
