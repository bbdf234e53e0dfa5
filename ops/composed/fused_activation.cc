#include "ops/composed/fused_activation.h"

#include "base/error.h"
#include "base/text.h"

namespace amp {

ValueId fused_activation(const Lowering& l, ValueId x, const std::string& name, const std::vector<double>& parameters) {
  const auto p = [&](size_t i, double fallback) { return i < parameters.size() ? parameters[i] : fallback; };
  if (name.empty()) return x;
  if (name == "Relu" || name == "Sigmoid" || name == "Tanh" || name == "Softplus" || name == "HardSwish" ||
      name == "Gelu" || name == "Softsign") {
    return l.b.op(name, {x});
  }
  if (name == "Swish") return l.b.op("Swish", {x}, {{"alpha", p(0, 1)}});
  if (name == "LeakyRelu") return l.b.op("LeakyRelu", {x}, {{"alpha", p(0, 0.01)}});
  if (name == "Elu") return l.b.op("Elu", {x}, {{"alpha", p(0, 1)}});
  if (name == "HardSigmoid") return l.b.op("HardSigmoid", {x}, {{"alpha", p(0, 0.2)}, {"beta", p(1, 0.5)}});
  if (name == "Clip")
    return l.b.op("Clip", {x}, {{"min", p(0, -3.4028234663852886e38)}, {"max", p(1, 3.4028234663852886e38)}});
  l.unsupported(cat("activation '", printable(name), "'"));
}

}  // namespace amp
