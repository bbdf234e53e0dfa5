// Finite differences of an operator case in fp64, and the judgement of a claimed gradient by them.
#pragma once

#include <string>
#include <vector>

#include "tests/ops/case_run.h"

namespace amp::test {

struct Probe {
  std::vector<double> direction;
  double slope;   // of <dy, f(x)> along it, by differences
  double length;  // of the direction
};

// Input i of a case. Along every element when there are few; else along some, the one of the largest gradient too, and
// random directions.
std::vector<Probe> probe(const CaseRun& f, const OpCase& c, const std::vector<HostTensor>& in,
                         const std::vector<HostTensor>& dy, size_t i, const std::vector<double>& grad);

// The worst probe of a claimed gradient: its error over what is allowed, as text too.
struct Verdict {
  double excess = 0;  // > 1 fails
  std::string text;
};
Verdict judge(const std::vector<Probe>& probes, const std::vector<double>& grad, double scale);

}  // namespace amp::test
