// Masked language modeling: which tokens of a text are masked, by the rule of the BERT paper.
#include "data/language/masking.h"

#include <catch2/catch_all.hpp>
#include <cmath>

#include "base/error.h"
#include "data/text_dataset.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;

namespace {

const Tokenizer& tokenizer() {
  static const std::unique_ptr<Tokenizer> t = open_tokenizer(test::test_data("data/tokenizers/word_piece.json"));
  return *t;
}

const std::vector<InputSpec> kInputs = {{"input_ids", DType::i64, Dims{-1, -1}},
                                        {"attention_mask", DType::i64, Dims{-1, -1}}};

// Returns texts of random ids, some of them special, between [CLS] and [SEP].
std::shared_ptr<const Dataset> texts(int64_t count) {
  std::vector<LabeledText> all;
  uint64_t state = 7;
  for (int64_t t = 0; t < count; ++t) {
    std::vector<Piece> pieces;
    for (int64_t i = 0; i < 20 + t % 60; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      pieces.push_back({static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(tokenizer().size())), 0, 0});
    }
    LabeledText text;
    text.encoding = assemble(tokenizer().single(), pieces);
    text.labels.assign(text.encoding.ids.begin(), text.encoding.ids.end());
    all.push_back(std::move(text));
  }
  TextOptions o;
  o.labels = LabelForm::ids;
  o.sees_ahead = true;
  return make_labeled_dataset(std::move(all), {"t.txt"}, tokenizer(), kInputs, o);
}

std::vector<int64_t> numbers(int64_t n) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) out[static_cast<size_t>(i)] = i;
  return out;
}

bool is_special(int64_t id) {
  const SpecialIds& s = tokenizer().special();
  return id == s.unk || id == s.pad || id == s.cls || id == s.sep || id == s.mask;
}

double errors(double have, double of, double p) { return std::abs(have - of * p) / std::sqrt(of * p * (1 - p)); }

}  // namespace

TEST_CASE("tokens are chosen and replaced in the paper's shares", "[masking]") {
  const auto data = texts(600);
  const auto masked = make_masked_dataset(data, tokenizer(), kInputs, {});
  const std::vector<int64_t> all = numbers(600);
  const Batch plain = data->batch(all);
  const std::vector<int64_t> ids = plain.inputs.at("input_ids").to_ints(), own = plain.labels.to_ints();
  for (const int64_t epoch : {0, 1, 5}) {
    const Batch b = masked->training_batch(all, epoch);
    const std::vector<int64_t> got = b.inputs.at("input_ids").to_ints(), labels = b.labels.to_ints();
    double can = 0, chosen = 0, hidden = 0, same = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      const bool may = own[i] != kIgnoreIndex && !is_special(own[i]);
      can += may;
      if (labels[i] == kIgnoreIndex) {
        if (got[i] != ids[i]) FAIL("a token that is not learnt was replaced");
        continue;
      }
      if (!may || labels[i] != ids[i]) FAIL("a label that is not the token's own");
      ++chosen;
      hidden += got[i] == tokenizer().special().mask;
      same += got[i] == ids[i];
    }
    CHECK(can > 20000);
    CHECK(errors(chosen, can, 0.15) < 5);
    CHECK(errors(hidden, chosen, 0.8 + 0.1 / static_cast<double>(tokenizer().size())) < 5);
    CHECK(errors(same, chosen, 0.1 + 0.1 / static_cast<double>(tokenizer().size())) < 5);
    CHECK(b.valid_items == static_cast<int64_t>(chosen));
    CHECK(b.inputs.at("attention_mask").to_ints() == plain.inputs.at("attention_mask").to_ints());
  }
}

TEST_CASE("what is hidden goes by seed, epoch and sample, not by the batch", "[masking]") {
  const auto masked = make_masked_dataset(texts(8), tokenizer(), kInputs, {0.3, false, 1});
  const auto row = [](const Batch& b, int64_t r, int64_t n) {
    const std::vector<int64_t> all = b.labels.to_ints();
    const auto from = all.begin() + r * b.labels.dims()[1];
    return std::vector<int64_t>(from, from + n);
  };
  const Batch three = masked->training_batch(std::vector<int64_t>{5, 2, 7}, 3),
              one = masked->training_batch(std::vector<int64_t>{2}, 3);
  CHECK(row(three, 1, 22) == row(one, 0, 22));
  CHECK(row(one, 0, 22) != row(masked->training_batch(std::vector<int64_t>{2}, 4), 0, 22));
  CHECK(masked->batch(std::vector<int64_t>{2}).labels.to_ints() ==
        masked->batch(std::vector<int64_t>{2}).labels.to_ints());
  const auto other = make_masked_dataset(texts(8), tokenizer(), kInputs, {0.3, false, 2});
  CHECK(row(one, 0, 22) != row(other->training_batch(std::vector<int64_t>{2}, 3), 0, 22));
}

TEST_CASE("whole words are hidden, or none of their tokens", "[masking]") {
  const std::vector<bool> within = tokens_within_words(tokenizer());
  int64_t pieces = 0;
  for (int32_t id = 0; id < tokenizer().size(); ++id) {
    CHECK(within[static_cast<size_t>(id)] ==
          (tokenizer().token(id).size() > 2 && tokenizer().token(id).starts_with("##")));
    pieces += within[static_cast<size_t>(id)];
  }
  CHECK(pieces > 20);
  const auto data = texts(200);
  const auto masked = make_masked_dataset(data, tokenizer(), kInputs, {0.3, true, 1});
  const std::vector<int64_t> all = numbers(200);
  const std::vector<int64_t> own = data->batch(all).labels.to_ints(),
                             labels = masked->training_batch(all, 0).labels.to_ints();
  int64_t together = 0;
  for (size_t i = 1; i < own.size(); ++i) {
    if (own[i] == kIgnoreIndex || is_special(own[i]) || is_special(own[i - 1]) || !within[static_cast<size_t>(own[i])])
      continue;
    ++together;
    CHECK((labels[i] == kIgnoreIndex) == (labels[i - 1] == kIgnoreIndex));
  }
  CHECK(together > 100);
  const auto bytes = open_tokenizer(test::test_data("data/tokenizers/roberta.json"));
  const std::vector<bool> rest = tokens_within_words(*bytes);
  CHECK_FALSE(rest[static_cast<size_t>(bytes->tokenize("a the").back())]);
  CHECK(rest[static_cast<size_t>(bytes->find("e"))]);
}

TEST_CASE("a tokenizer without a mask token trains no masked language model", "[masking]") {
  const auto bytes = open_tokenizer(test::test_data("data/tokenizers/byte_level.json"));
  test::expect_error("E_MASK_TOKEN", "no mask token", [&] { make_masked_dataset(texts(1), *bytes, kInputs, {}); });
}
