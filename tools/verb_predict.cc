// predict: every graph output for a batch of tensors.
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/safetensors.h"
#include "tools/common.h"
#include "tools/verbs.h"

namespace amp {

int run_predict(const cli::Options& opts) {
  set_threads(opts);
  const Imported model = open_model(opts);
  const SourceGraph& g = model.graph;
  require_known_operators(g, g.outputs);
  Session session(g, session_options(opts, choose_plan(opts, g)));
  std::vector<NamedTensor> out;
  for (auto& [name, t] : session.forward(g.outputs, read_batch(opts.str("inputs")))) {
    out.push_back({name, t.dtype() == DType::f64 && opts.str("dtype") != "fp64" ? t.cast(DType::f32) : t});
  }
  write_safetensors(opts.str("out"), out);
  std::cout << nlohmann::json{{"outputs", out.size()}, {"out", opts.str("out")}}.dump() << '\n';
  return 0;
}

}  // namespace amp
