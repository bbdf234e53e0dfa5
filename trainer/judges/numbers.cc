// Numbers, and cosines of pairs: the distance, in the units before the target's transform.
#include <cmath>

#include "base/text.h"
#include "trainer/judges/judge.h"
#include "trainer/losses/loss.h"
#include "trainer/metrics/metrics.h"
#include "trainer/predictions/predictions.h"

namespace amp {

namespace {

class DistanceJudge final : public Judge {
 public:
  DistanceJudge(const LossSpec& loss, const MetricContext& context)
      : pairs_(loss_rule(loss.kind).embeddings), target_(context.target) {}

  double error(const JudgedRow& r) const override {
    const std::vector<double> x = numbers_of(r), label = labels_of(r);
    double square = 0;
    for (size_t i = 0; i < x.size() && i < label.size(); ++i) {
      const double d = target_.inverse(x[i]) - target_.inverse(label[i]);
      square += d * d;
    }
    return std::isnan(square) ? kInfinity : std::sqrt(square);
  }

  void describe(const JudgedRow& r, JudgedSample& out) const override {
    const auto text = [&](const std::vector<double>& values) {
      std::vector<std::string> parts;
      for (const double v : values) parts.push_back(cat(shown(target_.inverse(v))));
      return join(parts, ", ");
    };
    out.label = text(labels_of(r));
    out.predicted = text(numbers_of(r));
  }

 private:
  std::vector<double> numbers_of(const JudgedRow& r) const {
    const std::span<const float> x = values_of(r);  // of pairs: two rows, one after the other
    const std::vector<double> wide(x.begin(), x.end());
    return pairs_ ? pair_cosines(wide, r.outputs[0].dims().back()) : wide;
  }

  bool pairs_;
  TargetTransform target_;
};

const JudgeRegistration numbers_judge{Task::regression, judge<DistanceJudge>};

}  // namespace

}  // namespace amp
