// Root mean square percentage error, for numbers and for outputs that are logarithms.
#include <algorithm>

#include "ops/compose.h"
#include "trainer/losses/loss.h"

namespace amp::losses {

namespace {

// Returns n sqrt(mean ((y - o) / y)^2) over the n labels that are not 0. The later division by the number of items
// cancels the factor n.
Sums rmspe(Builder& b, const LossSpec&, const LossInputs& in) {
  const ValueId o = in.outputs[0], y = float_label(b, o, in.label);
  const DType t = b.dtype(o);
  const ValueId zero = b.scalar(0, t), one = b.scalar(1, t), none = b.op("Equal", {y, zero});
  const ValueId r = b.op("Where", {none, zero, div(b, sub(b, y, o), b.op("Where", {none, one, y}))});
  const ValueId n = total(b, b.expand(b.op("Where", {none, zero, one}), b.dims(o)));
  return {safe_sqrt(b, mul(b, n, total(b, square(b, r))))};
}

Sums rmspe_exp(Builder& b, const LossSpec&, const LossInputs& in) {  // n sqrt(mean r^2), r = 1 - e^(o - y)
  const ValueId r = shifted(b, scaled(b, b.op("Exp", {residual(b, in)}), -1), 1);
  const double n = static_cast<double>(numel(b.dims(in.outputs[0])));
  return {scaled(b, safe_sqrt(b, scaled(b, total(b, square(b, r)), 1 / n)), n)};
}

Counts count_nonzero(const LossSpec&, const HostTensor& label, int64_t) {
  const std::vector<double> y = label.to_doubles();
  return {static_cast<double>(y.size()) - static_cast<double>(std::count(y.begin(), y.end(), 0.0))};
}

const LossRegistration rmspe_numbers{{
    .name = "rmspe",
    .doc = {{"numbers; y = 0 is left out", "sqrt(mean ((y - x)/y)²)", "labels that are not 0"}},
    .build = rmspe,
    .count = count_nonzero,
    .task = Task::regression,
    .root = true,
    .across_rows = true,
}};

const LossRegistration logarithms{{
    .name = "rmspe_exp",
    .doc = {{"logarithms", "sqrt(mean (1 - e^(x - y))²)", "elements"}},
    .build = rmspe_exp,
    .count = count_all,
    .task = Task::regression,
    .root = true,
    .across_rows = true,
}};

}  // namespace

}  // namespace amp::losses
