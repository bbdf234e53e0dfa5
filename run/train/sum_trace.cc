#include "run/train/sum_trace.h"

#include "base/file.h"

namespace amp {

namespace {

constexpr int64_t kSteps = 100;
enum Track : int { kComputing = 1, kSumming = 2 };

}  // namespace

void SumTrace::observe(const StepResult& step) {
  const GradientReducer::Cost& c = step.sums;
  if (c.sums.empty() || steps_++ >= kSteps) return;
  if (first_ == 0) first_ = c.run.begin > 0 ? c.run.begin : c.wait.begin;
  const auto add = [&](Track track, const std::string& name, const GradientReducer::Span& s) {
    nlohmann::json e = {{"ph", "X"}, {"pid", 1}, {"tid", static_cast<int>(track)}, {"name", name}};
    e["ts"] = (s.begin - first_) * 1e6;
    e["dur"] = s.seconds * 1e6;
    e["args"] = {{"step", step.step}};
    if (s.elements > 0) e["args"]["elements"] = s.elements;
    events_.push_back(std::move(e));
  };
  if (c.run.begin > 0) add(kComputing, "forward and backward", c.run);
  add(kComputing, "wait for sums", c.wait);
  for (const GradientReducer::Span& s : c.sums) add(kSumming, "sum of gradients", s);
}

void SumTrace::write(const std::string& path) const {
  nlohmann::json out = events_;
  for (const auto& [track, name] :
       {std::pair(kComputing, "this rank computes"), std::pair(kSumming, "gradients over the ranks")})
    out.push_back({{"ph", "M"},
                   {"pid", 1},
                   {"tid", static_cast<int>(track)},
                   {"name", "thread_name"},
                   {"args", {{"name", name}}}});
  FileWriter file(path);
  file.write(nlohmann::json{{"traceEvents", std::move(out)}, {"displayTimeUnit", "ms"}}.dump() + "\n");
  file.commit();
}

}  // namespace amp
