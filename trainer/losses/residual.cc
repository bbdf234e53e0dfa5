// Regression losses of the residual r = output - label, elementwise.
#include <cmath>

#include "ops/compose.h"
#include "trainer/losses/loss.h"

namespace amp::losses {

namespace {

Sums mse(Builder& b, const LossSpec&, const LossInputs& in) { return {total(b, square(b, residual(b, in)))}; }
Sums l1(Builder& b, const LossSpec&, const LossInputs& in) { return {total(b, b.op("Abs", {residual(b, in)}))}; }

// Returns the sum of c (r - c / 2), where c is r clipped to [-delta, delta].
Sums huber(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const double delta = spec.number("delta");
  const ValueId r = residual(b, in);
  const ValueId c = b.op("Clip", {r}, {{"min", -delta}, {"max", delta}});
  return {total(b, mul(b, c, sub(b, r, scaled(b, c, 0.5))))};
}

// Uses log cosh r = abs(r) + softplus(-2 abs(r)) - log 2, in which exponentials cannot overflow.
Sums log_cosh(Builder& b, const LossSpec&, const LossInputs& in) {
  const ValueId r = b.op("Abs", {residual(b, in)});
  return {total(b, shifted(b, add(b, r, b.op("Softplus", {scaled(b, r, -2)})), -std::log(2.0)))};
}

const LossRegistration squares{{
    .name = "mse",
    .doc = {{"numbers", "(x - y)²", "elements"}},
    .build = mse,
    .count = count_all,
    .synonyms = {"l2"},
    .task = Task::regression,
}};

const LossRegistration absolutes{{
    .name = "l1",
    .doc = {{"numbers", "abs(x - y)", "elements"}},
    .build = l1,
    .count = count_all,
    .synonyms = {"mae"},
    .task = Task::regression,
}};

const LossRegistration both{{
    .name = "huber",
    .doc = {{"numbers", "r²/2 up to delta, then delta (abs(r) - delta/2), r = x - y", "elements"}},
    .build = huber,
    .count = count_all,
    .parameters = {{"delta", ParameterForm::number, 1, 0, true}},
    .task = Task::regression,
}};

const LossRegistration smooth{{
    .name = "log_cosh",
    .doc = {{"numbers", "log cosh(x - y)", "elements"}},
    .build = log_cosh,
    .count = count_all,
    .task = Task::regression,
}};

}  // namespace

}  // namespace amp::losses
