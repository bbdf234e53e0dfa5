// Retrieval: embeddings of anchors and candidates, without labels. Each anchor has one correct candidate, which should
// be nearest to it. A sample's error is the rank of that candidate; WorstSamples::finish() reads it from the metrics.
#include "base/error.h"
#include "trainer/tasks/nearest.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

// The sides (anchor, candidate, ...) are alternating rows of one output, or each side is a separate output.
class RetrievalMetrics final : public TaskMetrics {
 public:
  RetrievalMetrics(const LossSpec& loss, const MetricContext&)
      : sides_(loss.outputs.size() > 1 ? 1 : rows_together(loss)) {}
  void add(const std::vector<HostTensor>& outputs, const HostTensor&, std::span<const int64_t>) override {
    const int64_t width = outputs.at(0).dims().back();
    if (sides_ > 1) return nearest_.add(floats(outputs[0]), width, sides_);
    std::vector<std::vector<float>> sides;
    for (const HostTensor& t : outputs) sides.push_back(floats(t));
    std::vector<float> rows;
    const size_t h = static_cast<size_t>(width);
    for (size_t at = 0; at < sides[0].size(); at += h) {
      for (const std::vector<float>& s : sides) rows.insert(rows.end(), s.begin() + at, s.begin() + at + h);
    }
    nearest_.add(rows, width, static_cast<int64_t>(sides.size()));
  }
  MetricValues values(double) const override {
    const Nearest::Scores s = nearest_.scores();
    return {{"accuracy", s.accuracy}, {"mrr", s.mrr}};
  }
  std::span<const CandidateRank> ranks() const override { return nearest_.ranks(); }

 private:
  int64_t sides_;
  Nearest nearest_;
};

class Embeddings final : public Predictions {
 public:
  Embeddings(const LossSpec&, const PredictionContext& context)
      : rows_(context.rows), sides_(std::max<size_t>(1, context.text_columns.size())) {
    names_ = sides_ > 1 ? context.text_columns : std::vector<std::string>{""};
    for (std::string& n : names_) n += n.empty() ? "embedding" : "_embedding";
  }

  // Stores a batch's embeddings. The rows of the output alternate between the sides.
  void add(const std::vector<HostTensor>& outputs, const Batch& batch) override {
    const HostTensor out = outputs.at(0).cast(DType::f32);
    const auto sides = static_cast<int64_t>(sides_);
    if (out.rank() != 2)
      fail(Exit::usage, "E_TASK",
           cat("the model's output of shape ", to_string(out.dims()),
               " is no embedding a text, which has two dimensions"),
           "name another with `output`, or the task that the model is for with `task`");
    const int64_t width = width_of(out, batch.rows * sides);
    if (values_.empty()) {
      width_ = width;
      values_.assign(sides_, std::vector<float>(static_cast<size_t>(rows_ * width)));
    }
    if (width != width_) bug("batches of different widths");
    for (int64_t r = 0; r < batch.rows; ++r) {
      for (int64_t s = 0; s < sides; ++s)
        std::copy_n(out.as<float>() + (r * sides + s) * width, width,
                    values_[static_cast<size_t>(s)].begin() + batch.samples[static_cast<size_t>(r)] * width);
    }
  }

  std::vector<PredictedField> row(int64_t row) const override {
    std::vector<PredictedField> out;
    for (size_t s = 0; s < sides_; ++s) {
      nlohmann::ordered_json vector = nlohmann::ordered_json::array();
      for (int64_t i = row * width_; i < (row + 1) * width_; ++i)
        vector.push_back(number(values_[s][static_cast<size_t>(i)]));
      out.push_back({names_[s], std::move(vector)});
    }
    return out;
  }

  std::vector<NamedTensor> tensors() const override {
    std::vector<NamedTensor> out;
    for (size_t s = 0; s < sides_; ++s) out.push_back({names_[s], HostTensor::of<float>({rows_, width_}, values_[s])});
    return out;
  }

 private:
  int64_t rows_, width_ = 0;
  size_t sides_;
  std::vector<std::string> names_;
  std::vector<std::vector<float>> values_;  // for each side: embeddings (rows, width)
};

const TaskRegistration retrieval_row{{
    .name = "retrieval",
    .embeddings = true,
    .loss = "multiple_negatives",
    .metrics = {{"accuracy"}, {"mrr"}},
    .best = "accuracy",
    .make_metrics = metrics_as<RetrievalMetrics>,
    .make_predictions = predictions_as<Embeddings>,
}};

}  // namespace

}  // namespace amp
