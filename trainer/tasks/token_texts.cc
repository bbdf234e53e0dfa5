// Per-token losses of texts. A row's loss is the mean over its tokens whose label is not ignored. The row's perplexity
// is the exponential of that loss.
#include "trainer/tasks/token_texts.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/math.h"
#include "trainer/losses/loss.h"
#include "trainer/tasks/class_metrics.h"

namespace amp {

int64_t vocabulary_of(const HostTensor& out, const Batch& batch) {
  const int64_t length = batch.labels.dims().at(1);
  const int64_t width = width_of(out, batch.rows) / length;
  if (out.numel() != batch.rows * length * width || width < 2)
    fail(Exit::usage, "E_TASK", cat("the model's output of shape ", to_string(out.dims()), " is no language model's"),
         "give the task that the model is for with `task`");
  return width;
}

namespace {

class TokenTextMetrics final : public ClassMetrics {
 public:
  explicit TokenTextMetrics(const LossSpec& loss) : ClassMetrics(loss) {}
  MetricValues values(double loss) const override {
    return {{"accuracy", classes().accuracy()}, {"perplexity", std::exp(loss)}};
  }
};

class TextLosses final : public Predictions {
 public:
  // ahead: a token's position minus the position of the output that predicts it.
  TextLosses(const PredictionContext& context, int64_t ahead)
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
  // Returns the loss of a row; NaN if no token of the text has a loss.
  double loss(int64_t row) const {
    const auto r = static_cast<size_t>(row);
    return tokens_[r] ? sums_[r] / static_cast<double>(tokens_[r]) : std::nan("");
  }

  const int64_t ahead_;
  std::vector<double> sums_;
  std::vector<int64_t> tokens_;
  std::span<const int64_t> rows_;  // row of each sample; empty: samples are rows
};

// Returns -log softmax(x)[at] in fp32. Vocabularies are large, so the loops are written for vectorization.
double token_loss(std::span<const float> x, size_t at) {
  float top = x[0], sum = 0;
#pragma omp simd reduction(max : top)
  for (size_t i = 0; i < x.size(); ++i) top = x[i] > top ? x[i] : top;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < x.size(); ++i) sum += math::exp(x[i] - top);
  const double loss = std::log(static_cast<double>(sum)) + static_cast<double>(top) - static_cast<double>(x[at]);
  return std::isnan(loss) ? PerSampleError::kInfinity : loss;
}

class TokenLossError final : public PerSampleError {
 public:
  TokenLossError(const LossSpec& loss, const MetricContext&) : ahead_(loss_rule(loss.kind).next_token ? 1 : 0) {}

  double error(const SampleRow& r) const override {
    double sum = 0, tokens = 0;
    each_token(r, [&](std::span<const float>, int64_t, double loss) {
      sum += loss;
      ++tokens;
    });
    return tokens > 0 ? sum / tokens : kNone;
  }

  void describe(const SampleRow& r, SampleRecord& out) const override {
    double most = -1;
    each_token(r, [&](std::span<const float> x, int64_t label, double loss) {
      if (loss <= most) return;
      most = loss;
      const auto best = static_cast<size_t>(std::max_element(x.begin(), x.end()) - x.begin());
      out.label_token = label;
      out.predicted_token = static_cast<int64_t>(best);
      out.probability = std::exp(-token_loss(x, best));
    });
  }

 private:
  // Calls f(logits, label, loss) for each token. Outputs have the shape (rows, tokens, vocabulary). Tokens whose label
  // is not in the vocabulary are skipped.
  template <class F>
  void each_token(const SampleRow& r, const F& f) const {
    const Dims& d = r.outputs[0].dims();
    const auto tokens = static_cast<size_t>(r.label.numel() / r.rows);
    if (d.size() != 3 || d[0] != r.rows || d[1] != static_cast<int64_t>(tokens) || r.label.dtype() != DType::i64)
      return;
    const std::span<const float> x = values_of(r);
    const int64_t* const label = r.label.as<int64_t>() + r.row * d[1];
    const auto width = static_cast<size_t>(d[2]);
    for (size_t t = 0; t + ahead_ < tokens; ++t) {
      const int64_t id = label[t + ahead_];
      if (id < 0 || id >= d[2]) continue;
      const std::span<const float> logits = x.subspan(t * width, width);
      f(logits, id, token_loss(logits, static_cast<size_t>(id)));
    }
  }

  size_t ahead_;  // position of a token minus that of the output that predicts it
};

}  // namespace

std::unique_ptr<TaskMetrics> token_text_metrics(const LossSpec& loss, const MetricContext&) {
  return std::make_unique<TokenTextMetrics>(loss);
}

std::unique_ptr<Predictions> text_losses(const PredictionContext& context, int64_t ahead) {
  return std::make_unique<TextLosses>(context, ahead);
}

std::unique_ptr<PerSampleError> token_loss_error(const LossSpec& loss, const MetricContext& context) {
  return std::make_unique<TokenLossError>(loss, context);
}

}  // namespace amp
