// AnswersJudge in passages: -log p of both ends, of answers that do not match.
#include <algorithm>

#include "trainer/judges/judge.h"
#include "trainer/metrics/metrics.h"

namespace amp {

namespace {

class AnswersJudge final : public Judge {
 public:
  AnswersJudge(const LossSpec&, const MetricContext& context)
      : key_(context.answers), options_(context.answer_options) {}

  double error(const JudgedRow& r) const override {
    if (!key_ || r.outputs.size() < 2) return kNone;
    const std::vector<double> ends = labels_of(r);
    const AnswerKey::Window& window = key_->windows.at(static_cast<size_t>(r.sample));
    const std::vector<Answer>& answers = key_->questions[window.question].answers;
    // windows of a question beside the one that holds its answer
    if (!answers.empty() && ends.at(0) == static_cast<double>(window.none)) return kNone;
    double error = 0;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const std::span<const float> x = values_of(r, i);
      if (ends.at(i) < 0 || ends[i] >= static_cast<double>(x.size())) return kNone;
      std::vector<double> p(x.size());
      softmax(x, p);
      error += minus_log(p[static_cast<size_t>(ends[i])]);
    }
    const std::string said = normalize_answer(answer_of(r));
    const bool right = answers.empty() ? said.empty()
                                       : std::any_of(answers.begin(), answers.end(),
                                                     [&](const Answer& a) { return normalize_answer(a.text) == said; });
    return right ? kNone : error;
  }

  void describe(const JudgedRow& r, JudgedSample& out) const override {
    const Question& q = key_->questions[key_->windows.at(static_cast<size_t>(r.sample)).question];
    out.label = q.answers.empty() ? "" : q.answers[0].text;
    out.predicted = answer_of(r);
    out.question = q.text;
    out.passage = key_->passages[q.passage];
  }

 private:
  std::string answer_of(const JudgedRow& r) const {
    AnswerSearch search(*key_, options_);
    const int64_t sample[] = {r.sample};
    search.add(values_of(r, 0), values_of(r, 1), sample);
    return search.found().empty() ? "" : search.answer(search.found().begin()->second).text;
  }

  const AnswerKey* key_;
  AnswerOptions options_;
};

const JudgeRegistration answers_judge{Task::span, judge<AnswersJudge>};

}  // namespace

}  // namespace amp
