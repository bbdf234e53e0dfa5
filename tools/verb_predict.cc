// predict: every graph output for a batch of tensors.
#include <iostream>
#include <nlohmann/json.hpp>

#include "run/evaluate.h"
#include "tools/spec_of.h"
#include "tools/verbs.h"

namespace amp {

int run_predict(const cli::Options& opts, const Console& console) {
  const size_t outputs = predict(spec_of(opts), opts.str("inputs"), opts.str("out"), console.log());
  std::cout << nlohmann::json{{"outputs", outputs}, {"out", opts.str("out")}}.dump() << '\n';
  return 0;
}

}  // namespace amp
