// Source and target texts, against transformers' DataCollatorForSeq2Seq (tests/data/seq2seq/make_seq2seq.py).
#include "data/language/seq2seq.h"

#include <catch2/catch_all.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;
using nlohmann::json;

namespace {

std::vector<InputSpec> inputs(const std::vector<std::string>& names) {
  std::vector<InputSpec> out;
  for (const std::string& name : names) out.push_back({name, DType::i64, Dims{-1, -1}});
  return out;
}

const std::vector<std::string> kT5 = {"input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask"};

struct Rows {
  std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(test_data("seq2seq/tokenizer.json"));
  Table table = Table::read(test_data("seq2seq/rows.tsv"));
  Seq2SeqOptions options;
  Rows() {
    options.source = "source";
    options.target = "target";
    options.max_source = 24;
    options.max_target = 16;
  }
  std::unique_ptr<Dataset> open(const std::vector<std::string>& names) {
    return make_seq2seq_dataset(encode_seq2seq(table, *tokenizer, options), table.names(), *tokenizer, inputs(names), 8,
                                options);
  }
};

}  // namespace

TEST_CASE("batches of source and target are those of transformers") {
  const json golden = json::parse(std::ifstream(test_data("seq2seq/golden.json")));
  Rows rows;
  rows.options.prefix = golden["prefix"];
  const auto data = rows.open(kT5);
  REQUIRE(data->size() == 24);
  for (int64_t b = 0; b < 3; ++b) {
    std::vector<int64_t> samples(8);
    for (int64_t i = 0; i < 8; ++i) samples[static_cast<size_t>(i)] = 8 * b + i;
    const Batch batch = data->batch(samples);
    const json& want = golden["batches"][static_cast<size_t>(b)];
    const auto flat = [](const json& rows_of) {
      std::vector<int64_t> out;
      for (const json& row : rows_of) {
        for (const json& x : row) out.push_back(x.get<int64_t>());
      }
      return out;
    };
    const std::vector<int64_t> labels = flat(want["labels"]), decoder = flat(want["decoder_input_ids"]);
    CHECK(batch.inputs.at("input_ids").to_ints() == flat(want["input_ids"]));
    CHECK(batch.inputs.at("attention_mask").to_ints() == flat(want["attention_mask"]));
    REQUIRE(batch.labels.to_ints() == labels);
    const std::vector<int64_t> fed = batch.inputs.at("decoder_input_ids").to_ints(),
                               mask = batch.inputs.at("decoder_attention_mask").to_ints();
    int64_t valid = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      CHECK(mask[i] == (labels[i] != kIgnoreIndex));
      if (labels[i] == kIgnoreIndex) continue;  // the loss ignores these positions
      ++valid;
      CHECK(fed[i] == decoder[i]);
    }
    CHECK(batch.valid_items == valid);
  }
}

TEST_CASE("targets end with the end-of-text token wherever they are cut") {
  Rows rows;
  rows.options.max_target = 4;
  rows.options.start = 2;
  const Seq2SeqTexts texts = encode_seq2seq(rows.table, *rows.tokenizer, rows.options);
  CHECK(texts.cut > 10);
  for (size_t row = 0; row < texts.targets.size(); ++row) {
    const LabeledText t = texts.targets[row];
    REQUIRE(t.labels.size() <= 4);
    CHECK(t.labels.back() == rows.tokenizer->special().eos);
    CHECK(t.encoding.ids.front() == 2);
    for (size_t i = 1; i < t.labels.size(); ++i) CHECK(t.encoding.ids[i] == t.labels[i - 1]);
  }
}

TEST_CASE("a model that computes its own loss is fed the labels; what reads no target is refused") {
  Rows rows;
  const auto data = rows.open({"input_ids", "attention_mask", "labels"});
  const int64_t samples[] = {1, 2};
  const Batch batch = data->batch(samples);
  CHECK(batch.inputs.at("labels").to_ints() == batch.labels.to_ints());
  expect_error("E_DATA_INPUT", "reads a target", [&] { rows.open({"input_ids", "attention_mask"}); });
  expect_error("E_DATA_INPUT", "'encoder_outputs'", [&] { rows.open({"encoder_outputs", "decoder_input_ids"}); });
  expect_error("E_DATA_TOKEN_RANGE", "decoder_input_ids",
               [&] { rows.open(kT5)->check_token_range("decoder_input_ids", 3); });
}
