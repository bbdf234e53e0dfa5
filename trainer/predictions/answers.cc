// Answers to questions: parts of their passages, with places in code points.
#include "trainer/tasks/answers.h"

#include "base/error.h"
#include "trainer/predictions/predictions.h"

namespace amp {

namespace {

class Answers final : public Predictions {
 public:
  Answers(const LossSpec&, const PredictionContext& context)
      : rows_(context.rows), search_(*context.answers, context.answer_options) {}

  void add(const std::vector<HostTensor>& outputs, const Batch& batch) override {
    const HostTensor start = outputs.at(0).cast(DType::f32), end = outputs.at(1).cast(DType::f32);
    width_of(start, batch.rows);
    search_.add({start.as<float>(), static_cast<size_t>(start.numel())},
                {end.as<float>(), static_cast<size_t>(end.numel())}, batch.samples);
  }

  std::vector<PredictedField> row(int64_t row) const override {
    const AnswerSearch::Found found = of(row);
    const AnswerSearch::Best best = search_.answer(found);
    std::vector<PredictedField> out = {{"predicted_answer", best.text},
                                       {"answer_begin", best.begin},
                                       {"answer_end", best.end},
                                       {"score", number(best.score)}};
    if (search_.options().may_have_none) out.push_back({"null_score_diff", number(found.excess())});
    if (search_.options().n_best > 1) out.push_back({"n_best", ranked(found)});
    return out;
  }

  std::vector<NamedTensor> tensors() const override {
    std::vector<int64_t> begin, end;
    std::vector<float> score, excess;
    for (int64_t r = 0; r < rows_; ++r) {
      const AnswerSearch::Found found = of(r);
      const AnswerSearch::Best best = search_.answer(found);
      begin.push_back(best.begin);
      end.push_back(best.end);
      score.push_back(static_cast<float>(best.score));
      excess.push_back(static_cast<float>(found.excess()));
    }
    std::vector<NamedTensor> out = {{"answer_begin", HostTensor::of<int64_t>({rows_}, begin)},
                                    {"answer_end", HostTensor::of<int64_t>({rows_}, end)},
                                    {"score", HostTensor::of<float>({rows_}, score)}};
    if (search_.options().may_have_none) out.push_back({"null_score_diff", HostTensor::of<float>({rows_}, excess)});
    return out;
  }

 private:
  AnswerSearch::Found of(int64_t question) const {
    const auto it = search_.found().find(static_cast<size_t>(question));
    return it == search_.found().end() ? AnswerSearch::Found{} : it->second;
  }
  nlohmann::ordered_json ranked(const AnswerSearch::Found& found) const {
    nlohmann::ordered_json out = nlohmann::ordered_json::array();
    for (const auto& [best, probability] : search_.ranked(found))
      out.push_back({{"text", best.text},
                     {"begin", best.begin},
                     {"end", best.end},
                     {"score", number(best.score)},
                     {"probability", number(probability)}});
    return out;
  }

  int64_t rows_;
  AnswerSearch search_;
};

const PredictionRegistration answers_predictions{Task::span, make<Answers>};

}  // namespace

}  // namespace amp
