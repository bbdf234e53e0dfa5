// Verb grad: writes the gradients of one batch, for comparison with other frameworks; or a Hessian-vector product.
#include <iostream>
#include <nlohmann/json.hpp>

#include "run/evaluate/evaluate.h"
#include "tools/spec_of.h"
#include "tools/verbs.h"

namespace amp {

static nlohmann::json hessian(const cli::Options& opts, const Console& console) {
  const HessianReport r = write_hessian_product(spec_of(opts), opts.str("inputs"), opts.str("hvp"), opts.str("out"),
                                                opts.str("dump_graph"), console.log());
  return {{"loss", r.loss}, {"parameters", r.parameters}, {"out", opts.str("out")}, {"curvature", r.curvature}};
}

static int run_grad(const cli::Options& opts, const Console& console) {
  if (!opts.str("hvp").empty()) {
    std::cout << hessian(opts, console).dump() << '\n';
    return 0;
  }
  const GradientsReport r =
      write_gradients(spec_of(opts), opts.str("inputs"), opts.str("out"), opts.str("dump_graph"), console.log());
  nlohmann::json j = {
      {"loss", r.loss}, {"parameters", r.parameters}, {"out", opts.str("out")}, {"padding_removed", r.padding_removed}};
  if (r.loss_scale) j["loss_scale"] = *r.loss_scale;
  std::cout << j.dump() << '\n';
  return 0;
}

static const RegisterVerb grad_verb(cli::Verb::grad, run_grad);

}  // namespace amp
