// One class a row: -log p of its label. Any number of classes: binary cross-entropy.
#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "base/text.h"
#include "trainer/judges/judge.h"
#include "trainer/metrics/metrics.h"
#include "trainer/predictions/predictions.h"

namespace amp {

namespace {

class OneClassJudge final : public Judge {
 public:
  OneClassJudge(const LossSpec& loss, const MetricContext& context)
      : given_(loss.kind.find("prob") != std::string::npos), names_(context.classes) {}

  double error(const JudgedRow& r) const override {
    const std::vector<double> p = probabilities_of(r);
    const double label = labels_of(r).at(0);
    if (label < 0 || label >= static_cast<double>(p.size())) return kNone;
    const auto want = static_cast<size_t>(label);
    if (std::any_of(p.begin(), p.end(), [](double v) { return std::isnan(v); })) return kInfinity;
    return largest(p) == want ? kNone : minus_log(p[want]);
  }

  void describe(const JudgedRow& r, JudgedSample& out) const override {
    const std::vector<double> p = probabilities_of(r);
    const size_t best = largest(p);
    out.label = class_name(names_, static_cast<int64_t>(labels_of(r).at(0)));
    out.predicted = class_name(names_, static_cast<int64_t>(best));
    out.probability = p[best];
  }

 private:
  std::vector<double> probabilities_of(const JudgedRow& r) const {
    const std::span<const float> x = values_of(r);
    if (x.size() == 1) {
      const double yes = given_ ? x[0] : math::sigmoid(x[0]);
      return {1 - yes, yes};
    }
    std::vector<double> p(x.begin(), x.end());
    if (!given_) softmax(x, p);
    return p;
  }

  bool given_;  // the outputs are probabilities
  std::vector<std::string> names_;
};

class AnyClassesJudge final : public Judge {
 public:
  AnyClassesJudge(const LossSpec&, const MetricContext& context) : names_(context.classes) {}

  double error(const JudgedRow& r) const override {
    const std::span<const float> x = values_of(r);
    const std::vector<double> label = labels_of(r);
    double sum = 0;
    bool wrong = false;
    for (size_t i = 0; i < x.size() && i < label.size(); ++i) {
      if (label[i] < 0) continue;  // left out
      const double p = math::sigmoid(x[i]);
      sum += minus_log(label[i] >= 0.5 ? p : 1 - p);
      wrong |= !((p > 0.5) == (label[i] >= 0.5)) || std::isnan(p);
    }
    return wrong ? sum : kNone;
  }

  void describe(const JudgedRow& r, JudgedSample& out) const override {
    const std::span<const float> x = values_of(r);
    const std::vector<double> label = labels_of(r);
    std::vector<std::string> want, got;
    for (size_t i = 0; i < x.size() && i < label.size(); ++i) {
      if (label[i] >= 0.5) want.push_back(class_name(names_, static_cast<int64_t>(i)));
      if (x[i] > 0) got.push_back(class_name(names_, static_cast<int64_t>(i)));
    }
    out.label = join(want, ", ");
    out.predicted = join(got, ", ");
  }

 private:
  std::vector<std::string> names_;
};

const JudgeRegistration one_class_judge{Task::classification, judge<OneClassJudge>};
const JudgeRegistration any_classes_judge{Task::multilabel, judge<AnyClassesJudge>};

}  // namespace

}  // namespace amp
