// Batches of marked answers: the rows that TRL's KTOTrainer makes of the same token ids.
#include "data/language/marked_answers.h"

#include <catch2/catch_all.hpp>

#include "tests/support.h"

using namespace amp;

namespace {

const Tokenizer& tokenizer() {
  static const std::unique_ptr<Tokenizer> t = open_tokenizer(test::test_data("data/tokenizers/word_piece.json"));
  return *t;
}

LabeledText text_of(std::vector<int32_t> prompt, const std::vector<int32_t>& answer) {
  LabeledText t;
  t.labels.assign(prompt.size(), kIgnoreIndex);
  t.labels.insert(t.labels.end(), answer.begin(), answer.end());
  prompt.insert(prompt.end(), answer.begin(), answer.end());
  t.encoding.types.assign(prompt.size(), 0);
  t.encoding.ids = std::move(prompt);
  return t;
}

std::unique_ptr<Dataset> dataset(int64_t most = 0) {
  MarkedAnswers answers;
  answers.texts = {text_of({1, 2, 3}, {4, 5}), text_of({7, 8}, {9}), text_of({10}, {11, 12, 13})};
  answers.desirable = {1, 0, 1};
  TextOptions o;
  o.labels = LabelForm::ids;
  o.max_seq_len = most;
  o.pad_to_multiple = 1;
  return make_marked_dataset(std::move(answers), {"t"}, tokenizer(),
                             {{"input_ids", DType::i64, Dims{-1, -1}}, {"attention_mask", DType::i64, Dims{-1, -1}}}, o,
                             "desirable");
}

std::vector<int64_t> row(const HostTensor& t, int64_t r) {
  const std::vector<int64_t> all = t.to_ints();
  const int64_t n = t.dims()[1];
  return {all.begin() + r * n, all.begin() + (r + 1) * n};
}

using Ids = std::vector<int64_t>;
constexpr int64_t kNone = kIgnoreIndex;

}  // namespace

TEST_CASE("each prompt gets the previous answer of its batch, as in TRL", "[marked]") {
  const auto data = dataset();
  CHECK(data->rows_per_sample() == 2);
  const Batch b = data->batch(std::vector<int64_t>{0, 1});
  const int64_t pad = tokenizer().pad();
  const HostTensor& ids = b.inputs.at("input_ids");
  REQUIRE(ids.dims() == Dims{4, 5});
  // Rows 0 and 2 are answers. Rows 1 and 3 are TRL's KL_completion_ids, [last] + [all but last], after
  // the same prompts.
  CHECK(row(ids, 0) == Ids{1, 2, 3, 4, 5});
  CHECK(row(ids, 1) == Ids{1, 2, 3, 9, pad});
  CHECK(row(ids, 2) == Ids{7, 8, 9, pad, pad});
  CHECK(row(ids, 3) == Ids{7, 8, 4, 5, pad});
  CHECK(row(b.labels, 1) == Ids{kNone, kNone, kNone, 9, kNone});
  CHECK(row(b.labels, 3) == Ids{kNone, kNone, 4, 5, kNone});
  CHECK(row(b.inputs.at("attention_mask"), 3) == Ids{1, 1, 1, 1, 0});
  CHECK(b.more_labels.at("desirable").to_ints() == Ids{1, 0});
  CHECK(b.rows == 2);
  CHECK(b.samples == Ids{0, 1});
  // With another order of the samples, and with another sample, the prompts get other answers.
  const HostTensor turned = data->batch(std::vector<int64_t>{2, 0, 1}).inputs.at("input_ids");
  CHECK(row(turned, 1) == Ids{10, 9, pad, pad, pad, pad});
  CHECK(row(turned, 3) == Ids{1, 2, 3, 11, 12, 13});
}

TEST_CASE("an answer alone in its batch gets the next answer of the data", "[marked]") {
  const auto data = dataset();
  CHECK(row(data->batch(std::vector<int64_t>{0}).inputs.at("input_ids"), 1) == Ids{1, 2, 3, 9, tokenizer().pad()});
  CHECK(row(data->batch(std::vector<int64_t>{2}).inputs.at("input_ids"), 1) == Ids{10, 4, 5, tokenizer().pad()});
}

TEST_CASE("answers after other prompts are truncated, and lengths bound them", "[marked]") {
  const auto data = dataset(5);
  CHECK(std::vector<int32_t>(data->lengths().begin(), data->lengths().end()) == std::vector<int32_t>{5, 5, 4});
  const Batch b = data->batch(std::vector<int64_t>{2, 0});
  CHECK(row(b.inputs.at("input_ids"), 3) == Ids{1, 2, 3, 11, 12});
  CHECK(row(b.labels, 3) == Ids{kNone, kNone, kNone, 11, 12});
  const auto open = dataset();
  CHECK(std::vector<int32_t>(open->lengths().begin(), open->lengths().end()) == std::vector<int32_t>{6, 5, 4});
  CHECK_THROWS_WITH(data->check_token_range("input_ids", 13), Catch::Matchers::ContainsSubstring("t:"));
  CHECK_NOTHROW(data->check_token_range("input_ids", 1000000));
}
