// Answers to questions: parts of their passages, with places in code points.
#include "trainer/answers.h"

#include "base/error.h"
#include "trainer/predictions/predictions.h"

namespace amp {

namespace {

class Answers final : public Predictions {
 public:
  Answers(const LossSpec&, const PredictionContext& context)
      : rows_(context.rows), search_(*context.answers, context.max_answer_length) {}

  void add(const std::vector<HostTensor>& outputs, const Batch& batch) override {
    const HostTensor start = outputs.at(0).cast(DType::f32), end = outputs.at(1).cast(DType::f32);
    width_of(start, batch.rows);
    search_.add({start.as<float>(), static_cast<size_t>(start.numel())},
                {end.as<float>(), static_cast<size_t>(end.numel())}, batch.samples);
  }

  std::vector<PredictedField> row(int64_t row) const override {
    const AnswerSearch::Best best = of(row);
    return {{"predicted_answer", best.text},
            {"answer_begin", best.begin},
            {"answer_end", best.end},
            {"score", number(best.score)}};
  }

  std::vector<NamedTensor> tensors() const override {
    std::vector<int64_t> begin, end;
    std::vector<float> score;
    for (int64_t r = 0; r < rows_; ++r) {
      const AnswerSearch::Best best = of(r);
      begin.push_back(best.begin);
      end.push_back(best.end);
      score.push_back(static_cast<float>(best.score));
    }
    return {{"answer_begin", HostTensor::of<int64_t>({rows_}, begin)},
            {"answer_end", HostTensor::of<int64_t>({rows_}, end)},
            {"score", HostTensor::of<float>({rows_}, score)}};
  }

 private:
  AnswerSearch::Best of(int64_t question) const {
    const auto it = search_.best().find(static_cast<size_t>(question));
    return it == search_.best().end() ? AnswerSearch::Best{} : it->second;
  }

  int64_t rows_;
  AnswerSearch search_;
};

const PredictionRegistration registered{Task::span, make<Answers>};

}  // namespace

}  // namespace amp
