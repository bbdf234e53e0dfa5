// Finite differences of an operator case in fp64, and the comparison of a gradient with them.
#pragma once

#include <string>
#include <vector>

#include "tests/ops/case_run.h"

namespace amp::test {

struct Probe {
  std::vector<double> direction;
  double slope;   // derivative of <dy, f(x)> along the direction, by finite differences
  double length;  // 2-norm of the direction
};

// Probes input i of a case: along every element if there are few, else along some elements (including the one with the
// largest gradient) and random directions.
std::vector<Probe> probe(const CaseRun& f, const OpCase& c, const std::vector<HostTensor>& in,
                         const std::vector<HostTensor>& dy, size_t i, const std::vector<double>& grad);

// The probe with the largest error of a gradient: the error divided by the tolerance, and a description.
struct Verdict {
  double excess = 0;  // above 1: the gradient is wrong
  std::string text;
};
Verdict judge(const std::vector<Probe>& probes, const std::vector<double>& grad, double scale);

}  // namespace amp::test
