// Language models. A causal model predicts each next token; its predictions are the loss and perplexity of a text (for
// prompts with answers, of the answer's tokens). A masked model fills masks; its predictions are the likeliest tokens
// at each mask of a text, as in transformers' fill-mask pipeline.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "trainer/losses/loss.h"
#include "trainer/tasks/task_rule.h"
#include "trainer/tasks/token_texts.h"

namespace amp {

namespace {

class FilledMasks final : public Predictions {
 public:
  explicit FilledMasks(const PredictionContext& context)
      : rows_(static_cast<size_t>(context.rows)), tokenizer_(*context.tokenizer), top_k_(context.top_k) {
    if (tokenizer_.special().mask < 0)
      fail(Exit::data, "E_MASK_TOKEN", "the tokenizer has no mask token, so no text has one to fill",
           "give the model's own tokenizer with `tokenizer`");
  }

  void add(const std::vector<HostTensor>& outputs, const Batch& batch) override {  // (rows, tokens, vocabulary)
    const HostTensor out = outputs.at(0).cast(DType::f32);
    const int64_t length = batch.labels.dims().at(1), width = vocabulary_of(out, batch);
    for (int64_t r = 0; r < batch.rows; ++r) {
      Row& row = rows_[static_cast<size_t>(batch.samples[static_cast<size_t>(r)])];
      for (int64_t i = r * length; i < (r + 1) * length; ++i) {
        const int64_t id = batch.labels.as<int64_t>()[i];
        if (id == kIgnoreIndex) continue;
        if (id == tokenizer_.special().mask) {
          row.masks.push_back({row.ids.size(), likeliest({out.as<float>() + i * width, static_cast<size_t>(width)})});
        }
        row.ids.push_back(static_cast<int32_t>(id));
      }
    }
  }

  std::vector<PredictedField> row(int64_t number) const override {
    const Row& row = rows_[static_cast<size_t>(number)];
    nlohmann::ordered_json masks = nlohmann::ordered_json::array(), tokens = nlohmann::ordered_json::array();
    std::vector<int32_t> filled = row.ids;
    for (const Mask& m : row.masks) {
      nlohmann::ordered_json choices = nlohmann::ordered_json::array();
      for (const auto& [token, probability] : m.likeliest) {
        std::vector<int32_t> sequence = row.ids;
        sequence[m.place] = token;
        choices.push_back({{"score", amp::number(probability)},
                           {"token", token},
                           {"token_str", text_of(token)},
                           {"sequence", tokenizer_.decode(sequence, row.masks.size() > 1)}});
      }
      masks.push_back(std::move(choices));
      tokens.push_back(text_of(m.likeliest.front().first));
      filled[m.place] = m.likeliest.front().first;
    }
    return {{"predicted_tokens", tokens}, {"filled", tokenizer_.decode(filled)}, {"masks", masks}};
  }

  // Returns the likeliest tokens and their scores. Rows with fewer masks than the longest row are padded with token -1.
  std::vector<NamedTensor> tensors() const override {
    size_t most = 0, choices = 0;
    for (const Row& row : rows_) most = std::max(most, row.masks.size());
    for (const Row& row : rows_) {
      for (const Mask& m : row.masks) choices = std::max(choices, m.likeliest.size());
    }
    std::vector<int64_t> tokens(rows_.size() * most * choices, -1);
    std::vector<float> scores(tokens.size(), 0.0F);
    for (size_t r = 0; r < rows_.size(); ++r) {
      for (size_t m = 0; m < rows_[r].masks.size(); ++m) {
        for (size_t c = 0; c < choices; ++c) {
          const auto& [token, probability] = rows_[r].masks[m].likeliest[c];
          tokens[(r * most + m) * choices + c] = token;
          scores[(r * most + m) * choices + c] = static_cast<float>(probability);
        }
      }
    }
    const Dims dims = {static_cast<int64_t>(rows_.size()), static_cast<int64_t>(most), static_cast<int64_t>(choices)};
    return {{"mask_tokens", HostTensor::of<int64_t>(dims, tokens)},
            {"mask_scores", HostTensor::of<float>(dims, scores)}};
  }

 private:
  struct Mask {
    size_t place = 0;                                   // index in the row's ids
    std::vector<std::pair<int32_t, double>> likeliest;  // tokens with their probabilities
  };
  struct Row {
    std::vector<int32_t> ids;
    std::vector<Mask> masks;
  };

  std::string text_of(int32_t token) const { return tokenizer_.decode({&token, 1}, true); }

  std::vector<std::pair<int32_t, double>> likeliest(std::span<const float> logits) const {
    std::vector<int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    const auto n = static_cast<std::ptrdiff_t>(std::min(logits.size(), static_cast<size_t>(top_k_)));
    std::partial_sort(order.begin(), order.begin() + n, order.end(), [&](int32_t a, int32_t b) {
      const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
      return std::isnan(y) ? !std::isnan(x) || a < b : x > y || (x == y && a < b);
    });
    const double top = logits[static_cast<size_t>(order.front())];
    double sum = 0;
    for (const float x : logits) sum += std::exp(static_cast<double>(x) - top);
    std::vector<std::pair<int32_t, double>> out;
    for (std::ptrdiff_t i = 0; i < n; ++i) {
      const int32_t id = order[static_cast<size_t>(i)];
      out.emplace_back(id, std::exp(static_cast<double>(logits[static_cast<size_t>(id)]) - top) / sum);
    }
    return out;
  }

  std::vector<Row> rows_;
  const Tokenizer& tokenizer_;
  int64_t top_k_;
};

std::unique_ptr<Predictions> language_predictions(const LossSpec& loss, const PredictionContext& context) {
  if (loss_rule(loss.kind).next_token) return text_losses(context, 1);
  if (!loss_rule(loss.kind).hidden_tokens || !context.tokenizer)
    fail(Exit::usage, "E_TASK", cat("predicting texts needs a language model's loss, not ", loss.kind),
         "`loss` masked_lm fills the masks of texts, `loss` causal_lm gives the likelihood of texts");
  return std::make_unique<FilledMasks>(context);
}

const TaskRegistration language_row{{
    .name = "language",
    .synonyms = {"causal_lm"},
    .labels = LabelForm::ids,
    .text = TextForm::own_tokens,
    .loss = "causal_lm",
    .metrics = {{"accuracy"}, {"perplexity", true}},
    .make_metrics = token_text_metrics,
    .make_predictions = language_predictions,
    .make_error = token_loss_error,
}};

}  // namespace

}  // namespace amp
