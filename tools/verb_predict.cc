// predict: every graph output for a batch of tensors.
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/npz.h"
#include "tools/common.h"
#include "tools/model_metadata.h"
#include "tools/verbs.h"

namespace amp {

int run_predict(const cli::Options& opts) {
  set_threads(opts);
  require_tensor_file(opts.str("out"));
  const Imported model = open_model(opts);
  const SourceGraph& g = model.graph;
  require_known_operators(g, g.outputs);
  Session session(g, session_options(opts, choose_plan(opts, g)));
  const Tensors batch = read_batch(opts.str("inputs"));
  InputRanges ranges;
  for (const int v : g.inputs) {
    const auto it = batch.find(g.values[static_cast<size_t>(v)].name);
    if (it != batch.end() && is_float(g.values[static_cast<size_t>(v)].dtype)) ranges[it->first] = range_of(it->second);
  }
  check_ranges(recorded(*model.doc).ranges, ranges, opts.str("inputs"));
  std::vector<NamedTensor> out;
  for (auto& [name, t] : session.forward(g.outputs, batch)) {
    out.push_back({name, t.dtype() == DType::f64 && opts.str("dtype") != "fp64" ? t.cast(DType::f32) : t});
  }
  write_tensor_file(opts.str("out"), out);
  std::cout << nlohmann::json{{"outputs", out.size()}, {"out", opts.str("out")}}.dump() << '\n';
  return 0;
}

}  // namespace amp
