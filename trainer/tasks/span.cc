// Extractive question answering: predicts the first and last token of the part of a passage that answers a question.
// With texts, metrics are those of SQuAD; otherwise they compare token positions. The error of a sample is the sum of
// -log p of the answer's first and last token, and exists only if the predicted answer is wrong.
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "trainer/metrics/metrics.h"
#include "trainer/tasks/answers.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

class SpanMetrics final : public TaskMetrics {
 public:
  explicit SpanMetrics(const LossSpec& loss) : ignore_(loss.ignore_index()) {}
  void add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t>) override {
    spans_.add(floats(outputs.at(0)), floats(outputs.at(1)), label.to_ints(), ignore_);
  }
  MetricValues values(double) const override {
    return {{"exact_match", spans_.exact_match()}, {"span_f1", spans_.f1()}};
  }

 private:
  int64_t ignore_;
  Spans spans_;
};

// Metrics of answers, if the texts of the passages are known, as SQuAD computes them.
class AnswerMetrics final : public TaskMetrics {
 public:
  AnswerMetrics(const AnswerKey& key, const AnswerOptions& options) : scores_(key, options), options_(options) {}
  void add(const std::vector<HostTensor>& outputs, const HostTensor&, std::span<const int64_t> samples) override {
    scores_.add(floats(outputs.at(0)), floats(outputs.at(1)), samples);
  }
  MetricValues values(double) const override {
    MetricValues out = {
        {"exact_match", scores_.exact_match()}, {"span_f1", scores_.f1()}, {kSpanJaccard, scores_.jaccard()}};
    if (!options_.may_have_none) return out;
    for (auto& value : scores_.by_kind()) out.push_back(std::move(value));
    return out;
  }

 private:
  AnswerScores scores_;
  AnswerOptions options_;
};

std::unique_ptr<TaskMetrics> span_metrics(const LossSpec& loss, const MetricContext& context) {
  if (context.answers) return std::make_unique<AnswerMetrics>(*context.answers, context.answer_options);
  return std::make_unique<SpanMetrics>(loss);
}

std::vector<std::string> answer_metric_names() {
  std::vector<std::string> names = {kSpanJaccard};
  for (const std::string& name : AnswerScores::kind_names()) names.push_back(name);
  return names;
}

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

class AnswerError final : public PerSampleError {
 public:
  AnswerError(const LossSpec&, const MetricContext& context)
      : key_(context.answers), options_(context.answer_options) {}

  double error(const SampleRow& r) const override {
    if (!key_ || r.outputs.size() < 2) return kNone;
    const std::vector<double> ends = labels_of(r);
    const AnswerKey::Window& window = key_->windows.at(static_cast<size_t>(r.sample));
    const std::vector<Answer>& answers = key_->questions[window.question].answers;
    // A window that lacks the answer of a question with answers has no error.
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

  void describe(const SampleRow& r, SampleRecord& out) const override {
    const Question& q = key_->questions[key_->windows.at(static_cast<size_t>(r.sample)).question];
    out.label = q.answers.empty() ? "" : q.answers[0].text;
    out.predicted = answer_of(r);
    out.question = q.text;
    out.passage = key_->passages[q.passage];
  }

 private:
  std::string answer_of(const SampleRow& r) const {
    AnswerSearch search(*key_, options_);
    const int64_t sample[] = {r.sample};
    search.add(values_of(r, 0), values_of(r, 1), sample);
    return search.found().empty() ? "" : search.answer(search.found().begin()->second).text;
  }

  const AnswerKey* key_;
  AnswerOptions options_;
};

const TaskRegistration span_row{{
    .name = "span",
    .synonyms = {"qa", "question_answering"},
    .labels = LabelForm::spans,
    .text = TextForm::questions,
    .head = "span",
    .loss = "qa_span",
    .metrics = {{"exact_match"}, {"span_f1"}},
    .some_metrics = answer_metric_names,
    .best = "exact_match",
    .metrics_from = MetricsFrom::data,
    .make_metrics = span_metrics,
    .make_predictions = predictions_as<Answers>,
    .make_error = error_as<AnswerError>,
}};

}  // namespace

}  // namespace amp
