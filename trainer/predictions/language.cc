// How well a causal language model foretells a text: the mean loss of its tokens after the first (of
// prompts with answers: of the answers'), and its perplexity.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "trainer/losses/loss.h"
#include "trainer/predictions/predictions.h"

namespace amp {

namespace {

class Language final : public Predictions {
 public:
  Language(const LossSpec& loss, const PredictionContext& context)
      : sums_(static_cast<size_t>(context.rows)),
        tokens_(static_cast<size_t>(context.rows)),
        rows_(context.source_rows) {
    if (!loss_rule(loss.kind).next_token)
      fail(Exit::usage, "E_TASK", cat("texts are foretold by causal language models, the loss is ", loss.kind),
           "feed a masked language model with tensors: a .safetensors or .npz file");
  }

  void add(const std::vector<HostTensor>& outputs, const Batch& batch) override {  // (rows, tokens, vocabulary)
    const HostTensor out = outputs.at(0).cast(DType::f32);
    const int64_t length = batch.labels.dims().at(1);
    const int64_t width = width_of(out, batch.rows) / length;
    if (out.numel() != batch.rows * length * width || width < 2)
      fail(Exit::usage, "E_TASK", cat("the model's output of shape ", to_string(out.dims()), " is no language model's"),
           "give the task that the model is for with --task");
    const auto* const ids = batch.labels.as<int64_t>();
    for (int64_t r = 0; r < batch.rows; ++r) {
      auto sample = static_cast<size_t>(batch.samples[static_cast<size_t>(r)]);
      if (!rows_.empty()) sample = static_cast<size_t>(rows_[sample]);
      for (int64_t i = r * length; i + 1 < (r + 1) * length; ++i) {
        if (ids[i + 1] == kIgnoreIndex) continue;
        if (ids[i + 1] >= width)
          fail(Exit::data, "E_DATA_TOKEN_RANGE", cat("token ", ids[i + 1], " of a model with ", width, " outputs"),
               "the tokenizer's vocabulary does not match the model");
        sums_[sample] += minus_log({out.as<float>() + i * width, static_cast<size_t>(width)}, ids[i + 1]);
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

  std::vector<double> sums_;
  std::vector<int64_t> tokens_;
  std::span<const int64_t> rows_;  // of samples
};

const PredictionRegistration registered{Task::language, make<Language>};

}  // namespace

}  // namespace amp
