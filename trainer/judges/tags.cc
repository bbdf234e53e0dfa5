// A class for each word: -log p of its label, summed over the words that are wrong.
#include <cmath>

#include "base/text.h"
#include "trainer/judges/judge.h"
#include "trainer/metrics/metrics.h"
#include "trainer/predictions/predictions.h"

namespace amp {

namespace {

class TagsJudge final : public Judge {
 public:
  TagsJudge(const LossSpec&, const MetricContext& context) : names_(context.classes) {}

  double error(const JudgedRow& r) const override {
    double sum = 0;
    each_token(r, [&](size_t want, const std::vector<double>& p) {
      if (largest(p) != want || std::isnan(p[want])) sum += minus_log(p[want]);
    });
    return sum > 0 ? sum : kNone;
  }

  void describe(const JudgedRow& r, JudgedSample& out) const override {
    std::vector<std::string> want, got;
    each_token(r, [&](size_t label, const std::vector<double>& p) {
      want.push_back(class_name(names_, static_cast<int64_t>(label)));
      got.push_back(class_name(names_, static_cast<int64_t>(largest(p))));
    });
    out.label = join(want, " ");
    out.predicted = join(got, " ");
  }

 private:
  template <class F>
  static void each_token(const JudgedRow& r, const F& f) {  // f(label, probabilities), outputs (B, T, C)
    const std::span<const float> x = values_of(r);
    const std::vector<double> label = labels_of(r);
    const Dims& d = r.outputs[0].dims();
    if (d.size() != 3 || d[1] != static_cast<int64_t>(label.size())) return;
    const auto classes = static_cast<size_t>(d[2]);
    std::vector<double> p(classes);
    for (size_t t = 0; t < label.size(); ++t) {
      if (label[t] < 0 || label[t] >= static_cast<double>(classes)) continue;
      softmax(x.subspan(t * classes, classes), p);
      f(static_cast<size_t>(label[t]), p);
    }
  }

  std::vector<std::string> names_;
};

const JudgeRegistration tags_judge{Task::token, judge<TagsJudge>};

}  // namespace

}  // namespace amp
