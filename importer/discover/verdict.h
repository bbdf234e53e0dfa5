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
  bool excluded() const;  // true if the tensor's position excludes a weight
  bool weight() const { return log_odds() > 0; }
  double confidence() const;  // probability of the verdict given its evidence, 0.5 to 1
  bool unsure() const;        // true if confidence() is below 90 %
  std::string text() const;   // lists the evidence, strongest first: "name of a module's parameter (+4), ..."
};

}  // namespace amp
