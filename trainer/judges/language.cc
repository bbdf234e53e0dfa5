// Texts: the mean loss of a row's tokens, and what was foretold where the loss is largest. Every row has such a loss,
// so the worst are those of the largest, however good the model is.
#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "trainer/judges/judge.h"
#include "trainer/losses/loss.h"

namespace amp {

namespace {

// -log softmax(x)[at]; of any vocabulary, so in loops that compilers vectorise.
double token_loss(std::span<const float> x, size_t at) {
  float top = x[0], sum = 0;
#pragma omp simd reduction(max : top)
  for (size_t i = 0; i < x.size(); ++i) top = x[i] > top ? x[i] : top;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < x.size(); ++i) sum += math::exp(x[i] - top);
  const double loss = std::log(static_cast<double>(sum)) + static_cast<double>(top) - static_cast<double>(x[at]);
  return std::isnan(loss) ? Judge::kInfinity : loss;
}

class LanguageJudge final : public Judge {
 public:
  LanguageJudge(const LossSpec& loss, const MetricContext&) : ahead_(loss_rule(loss.kind).next_token ? 1 : 0) {}

  double error(const JudgedRow& r) const override {
    double sum = 0, tokens = 0;
    each_token(r, [&](std::span<const float>, int64_t, double loss) {
      sum += loss;
      ++tokens;
    });
    return tokens > 0 ? sum / tokens : kNone;
  }

  void describe(const JudgedRow& r, JudgedSample& out) const override {
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
  // f(logits, label, loss), outputs (B, T, V); labels outside of the vocabulary count for nothing.
  template <class F>
  void each_token(const JudgedRow& r, const F& f) const {
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

  size_t ahead_;  // places from the output to the token that it foretells
};

const JudgeRegistration language_judge{Task::language, judge<LanguageJudge>};
const JudgeRegistration seq2seq_judge{Task::seq2seq, judge<LanguageJudge>};

}  // namespace

}  // namespace amp
