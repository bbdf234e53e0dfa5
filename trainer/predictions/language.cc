// How well a causal language model foretells a text: the mean loss of its tokens after the first (of prompts with
// answers: of the answers'), and its perplexity; an encoder-decoder model a target text. Of a masked language model:
// the likeliest tokens at each mask of a text, as transformers' fill-mask pipeline gives them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "trainer/losses/loss.h"
#include "trainer/predictions/predictions.h"

namespace amp {

namespace {

// Of outputs (rows, tokens, vocabulary).
int64_t vocabulary_of(const HostTensor& out, const Batch& batch) {
  const int64_t length = batch.labels.dims().at(1);
  const int64_t width = width_of(out, batch.rows) / length;
  if (out.numel() != batch.rows * length * width || width < 2)
    fail(Exit::usage, "E_TASK", cat("the model's output of shape ", to_string(out.dims()), " is no language model's"),
         "give the task that the model is for with --task");
  return width;
}

class Language final : public Predictions {
 public:
  // ahead: places from the output to the token that it foretells
  Language(const PredictionContext& context, int64_t ahead)
      : ahead_(ahead),
        sums_(static_cast<size_t>(context.rows)),
        tokens_(static_cast<size_t>(context.rows)),
        rows_(context.source_rows) {}

  void add(const std::vector<HostTensor>& outputs, const Batch& batch) override {  // (rows, tokens, vocabulary)
    const HostTensor out = outputs.at(0).cast(DType::f32);
    const int64_t length = batch.labels.dims().at(1), width = vocabulary_of(out, batch);
    const auto* const ids = batch.labels.as<int64_t>();
    for (int64_t r = 0; r < batch.rows; ++r) {
      auto sample = static_cast<size_t>(batch.samples[static_cast<size_t>(r)]);
      if (!rows_.empty()) sample = static_cast<size_t>(rows_[sample]);
      for (int64_t i = r * length; i + ahead_ < (r + 1) * length; ++i) {
        const int64_t id = ids[i + ahead_];
        if (id == kIgnoreIndex) continue;
        if (id >= width)
          fail(Exit::data, "E_DATA_TOKEN_RANGE", cat("token ", id, " of a model with ", width, " outputs"),
               "the tokenizer's vocabulary does not match the model");
        sums_[sample] += minus_log({out.as<float>() + i * width, static_cast<size_t>(width)}, id);
        ++tokens_[sample];
      }
    }
  }

  std::vector<PredictedField> row(int64_t row) const override {
    return {{"loss", number(loss(row))},
            {"perplexity", number(std::exp(loss(row)))},
            {"tokens", tokens_[static_cast<size_t>(row)]}};
  }

  std::vector<NamedTensor> tensors() const override {
    const auto rows = static_cast<int64_t>(sums_.size());
    std::vector<float> losses;
    for (int64_t r = 0; r < rows; ++r) losses.push_back(static_cast<float>(loss(r)));
    return {{"loss", HostTensor::of<float>({rows}, losses)}, {"tokens", HostTensor::of<int64_t>({rows}, tokens_)}};
  }

 private:
  static double minus_log(std::span<const float> x, int64_t id) {
    const float top = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (const float v : x) sum += std::exp(static_cast<double>(v) - top);
    return std::log(sum) + top - x[static_cast<size_t>(id)];
  }
  double loss(int64_t row) const {  // NaN where a text has no token after its first
    const auto r = static_cast<size_t>(row);
    return tokens_[r] ? sums_[r] / static_cast<double>(tokens_[r]) : std::nan("");
  }

  const int64_t ahead_;
  std::vector<double> sums_;
  std::vector<int64_t> tokens_;
  std::span<const int64_t> rows_;  // of samples
};

class FilledMasks final : public Predictions {
 public:
  explicit FilledMasks(const PredictionContext& context)
      : rows_(static_cast<size_t>(context.rows)), tokenizer_(*context.tokenizer), top_k_(context.top_k) {
    if (tokenizer_.special().mask < 0)
      fail(Exit::data, "E_MASK_TOKEN", "the tokenizer has no mask token, so no text has one to fill",
           "give the model's own tokenizer with --tokenizer");
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

  std::vector<NamedTensor> tensors() const override {  // rows without so many masks: token -1
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
    size_t place = 0;                                   // among the row's ids
    std::vector<std::pair<int32_t, double>> likeliest;  // with their probabilities
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

std::unique_ptr<Predictions> of_language(const LossSpec& loss, const PredictionContext& context) {
  if (loss_rule(loss.kind).next_token) return std::make_unique<Language>(context, 1);
  if (!loss_rule(loss.kind).hidden_tokens || !context.tokenizer)
    fail(Exit::usage, "E_TASK", cat("texts are foretold by causal language models, the loss is ", loss.kind),
         "--loss masked_lm fills the masks of texts, --loss causal_lm tells how likely texts are");
  return std::make_unique<FilledMasks>(context);
}

std::unique_ptr<Predictions> of_targets(const LossSpec&, const PredictionContext& context) {
  return std::make_unique<Language>(context, 0);
}

const PredictionRegistration language_predictions{Task::language, of_language};
const PredictionRegistration of_seq2seq{Task::seq2seq, of_targets};

}  // namespace

}  // namespace amp
