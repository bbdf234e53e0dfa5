#include "run/model/probe.h"

#include <algorithm>
#include <optional>

#include "backend/interpreter.h"
#include "base/error.h"
#include "graph/symbols.h"

namespace amp {

BindOptions probe_options(const SourceGraph& g, const std::vector<int>& outputs, int64_t length) {
  constexpr int64_t kRows = 2;
  BindOptions o;
  o.outputs = outputs;
  const SymbolSizes symbols = probed_symbols(g, kRows, length);
  for (const int v : needed_inputs(g, outputs)) {
    const SourceValue& x = g.values[static_cast<size_t>(v)];
    Dims d;
    for (size_t i = 0; i < x.dims.size(); ++i)
      d.push_back(x.dims[i].value > 0 ? x.dims[i].value
                  : i == 0            ? kRows
                           : symbols.of(x.dims[i].symbol).value_or(i == 1 || x.dims.size() > 3 ? length : 1));
    o.input_dims[x.name] = d;
  }
  return o;
}

void mark_open_dims(const SourceGraph& g, const std::vector<int>& outputs, int64_t probed, std::vector<Dims>& shapes) {
  std::vector<int64_t> sizes(std::upper_bound(kProbedSizes.begin(), kProbedSizes.end(), probed), kProbedSizes.end());
  sizes.push_back(probed + 1);  // for models that accept few tokens, fewer than the next of kProbedSizes
  const BindOptions before = probe_options(g, outputs, probed);
  for (const int64_t size : sizes) {
    const BindOptions o = probe_options(g, outputs, size);
    if (o.input_dims == before.input_dims) return;  // the graph declares all sizes
    try {
      const std::vector<Dims> other = probe_shapes(g, ParamTable(g), o, cpu_evaluator());
      for (const int v : outputs) {
        Dims& d = shapes[static_cast<size_t>(v)];
        const Dims& e = other[static_cast<size_t>(v)];
        for (size_t i = 1; i < d.size() && d.size() == e.size(); ++i) d[i] = d[i] == e[i] ? d[i] : -1;
      }
      return;
    } catch (const Error& e) {
      if (e.exit() == Exit::internal) throw;
    }
  }
}

std::vector<Dims> probe_some_size(const SourceGraph& g, const std::vector<int>& outputs) {
  std::optional<Error> first;
  for (const int64_t size : kProbedSizes) {
    try {
      std::vector<Dims> shapes = probe_shapes(g, ParamTable(g), probe_options(g, outputs, size), cpu_evaluator());
      mark_open_dims(g, outputs, size, shapes);
      return shapes;
    } catch (const Error& e) {
      if (e.exit() == Exit::internal || e.exit() == Exit::unsupported) throw;
      if (!first) first = e;
    }
  }
  throw *first;
}

}  // namespace amp
