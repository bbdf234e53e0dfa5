// Verdict: the decision whether a floating-point tensor is a weight or a constant, with the evidence for it.
#pragma once

#include <string>
#include <vector>

namespace amp {

struct Evidence {
  std::string text;
  double weight = 0;  // log-odds: above 0 for a weight, below 0 for a constant
};

struct Verdict {
  std::vector<Evidence> evidence;  // empty if the tensor was not considered: it has another type, or no output needs it

  double log_odds() const;
  bool excluded() const;  // the tensor's position excludes a weight, whatever its name and values are
  bool weight() const { return log_odds() > 0; }
  double confidence() const;  // 0.5 .. 1: the probability of the verdict given its evidence
  bool unsure() const;        // confidence() is below 90 %
  std::string text() const;   // "name of a module's parameter (+4), ...", strongest first
};

}  // namespace amp
