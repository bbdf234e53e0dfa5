// Gradient penalty (Gulrajani et al. 2017, arXiv:1704.00028, equation 3). The output's gradient with respect to an
// input has a norm per row; the loss is the squared difference between that norm and a target. Target 0 gives the R1
// penalty (Mescheder et al. 2018) without the factor 1/2.
#include "base/error.h"
#include "ops/compose.h"
#include "trainer/losses/loss.h"

namespace amp::losses {

namespace {

// Returns the value to differentiate: the sum of all elements of the output. If rows are independent, each row of its
// gradient is the gradient of that row's output.
Sums differentiated(Builder& b, const LossSpec&, const LossInputs& in) { return {total(b, in.outputs[0])}; }

ValueId of_gradient(Builder& b, const LossSpec& spec, ValueId gradient) {
  const ValueId g = b.cast(gradient, b.dtype(gradient) == DType::f64 ? DType::f64 : DType::f32);
  const Dims& dims = b.dims(g);
  const int64_t rows = dims.empty() ? 1 : dims[0], each = rows > 0 ? numel(dims) / rows : 0;
  const ValueId squares = b.reduce_sum(square(b, b.reshape(g, {rows, each})), {1}, false);
  const double target = spec.number("target");
  return total(b, target == 0 ? squares : square(b, shifted(b, safe_sqrt(b, squares), -target)));
}

const LossRegistration gradient_penalty_row{{
    .name = "gradient_penalty",
    .doc = {{"[B, ...], and \"input\", a floating input of the model or another value [B, ...]",
             "(norm of the gradient of the sum of a row's outputs with respect to its \"input\" - target)²",
             "batch rows"}},
    .build = differentiated,
    .count = count_rows,
    .parameters = {{"target", ParameterForm::number, 1, 0}},
    .label = "",
    .of_gradient = of_gradient,
}};

}  // namespace

}  // namespace amp::losses
