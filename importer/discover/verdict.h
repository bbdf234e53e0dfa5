// The verdict on a floating-point tensor, weight or constant: a list of evidence, each with a weight.
#pragma once

#include <string>
#include <vector>

namespace amp {

struct Evidence {
  std::string text;
  double weight = 0;  // log-odds: above 0 for a weight, below 0 for a constant
};

struct Verdict {
  std::vector<Evidence> evidence;  // empty if not considered (other types, tensors that no output needs)

  double log_odds() const;
  bool weight() const { return log_odds() > 0; }
  double confidence() const;  // 0.5 .. 1: the probability of the verdict given its evidence
  bool unsure() const;        // below 90 %
  std::string text() const;   // "name of a module's parameter (+4), ...", strongest first
};

}  // namespace amp
