#include "importer/discover/verdict.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/text.h"

namespace amp {

double Verdict::log_odds() const {
  double sum = 0;
  for (const Evidence& e : evidence) sum += e.weight;
  return sum;
}

bool Verdict::excluded() const {
  constexpr double kExcludes = -12;
  return std::any_of(evidence.begin(), evidence.end(), [](const Evidence& e) { return e.weight <= kExcludes; });
}

double Verdict::confidence() const { return 1 / (1 + std::exp(-std::fabs(log_odds()))); }

bool Verdict::unsure() const { return !evidence.empty() && confidence() < 0.9; }

std::string Verdict::text() const {
  std::vector<Evidence> sorted = evidence;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Evidence& a, const Evidence& b) { return std::fabs(a.weight) > std::fabs(b.weight); });
  std::vector<std::string> parts;
  for (const Evidence& e : sorted) {
    char weight[32];
    std::snprintf(weight, sizeof weight, "%+.3g", e.weight);
    parts.push_back(cat(e.text, " (", weight, ")"));
  }
  return join(parts, ", ");
}

}  // namespace amp
