// Random inputs and labels for measurements of speed. Integer inputs must be valid indices of the tables that Gather
// nodes read, and class labels must be below the number of classes: both are found in the graph. Shapes of outputs come
// from shape inference (probe_shapes()), without computing the model.

#include "run/data/synthetic_data.h"

#include <algorithm>
#include <random>
#include <set>

#include "backend/interpreter.h"
#include "base/error.h"
#include "graph/bind.h"
#include "graph/symbols.h"
#include "run/data/data.h"
#include "trainer/losses/loss.h"

namespace amp {

namespace {

using Random = std::mt19937_64;

HostTensor normal_numbers(const Dims& dims, Random& random) {
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(numel(dims)));
  for (float& v : x) v = normal(random);
  return HostTensor::of<float>(dims, x);
}

HostTensor whole_numbers(const Dims& dims, int64_t end, Random& random) {
  std::uniform_int_distribution<int64_t> below(0, end - 1);
  std::vector<int64_t> x(static_cast<size_t>(numel(dims)));
  for (int64_t& v : x) v = below(random);
  return HostTensor::of<int64_t>(dims, x);
}

Dims dims_of(const SourceGraph& g, const SourceValue& v, const SyntheticShape& shape) {
  Dims d;
  const SymbolSizes symbols = probed_symbols(g, shape.rows, shape.length);
  for (size_t i = 0; i < v.dims.size(); ++i) {
    const int64_t open = i == 0 ? shape.rows
                                : symbols.of(v.dims[i].symbol)
                                      .value_or(v.dims.size() > 3 && i > 1 ? SyntheticShape::kPixels : shape.length);
    d.push_back(v.dims[i].value > 0 ? v.dims[i].value : open);
  }
  return d;
}

BindOptions bind_options(const SourceGraph& g, const std::vector<int>& outputs, const SyntheticShape& shape) {
  BindOptions o;
  o.outputs = outputs;
  for (const int v : needed_inputs(g, outputs)) o.input_dims[g.value(v).name] = dims_of(g, g.value(v), shape);
  return o;
}

// Returns the number of rows of the smallest table that an input's elements index, directly or after nodes that only
// change shape or type; 0: there is none.
int64_t rows_looked_up(const SourceGraph& g, int input) {
  static const std::set<std::string> kSame{"Cast",    "Identity", "Reshape", "Flatten",
                                           "Squeeze", "Expand",   "Slice",   "Unsqueeze"};
  std::set<int> same{input};
  int64_t rows = 0;
  for (const SourceNode& n : g.nodes) {
    if (n.inputs.empty()) continue;
    if (kSame.count(n.op) && same.count(n.inputs[0])) same.insert(n.outputs.at(0));
    if (n.op != "Gather" || n.inputs.size() < 2 || !same.count(n.inputs[1]) || n.inputs[0] < 0) continue;
    const HostTensor& table = g.value(n.inputs[0]).data;
    if (!table || table.rank() == 0) continue;
    const int64_t axis = n.attrs.i("axis", 0),
                  of = table.dims().at(static_cast<size_t>(axis < 0 ? axis + table.rank() : axis));
    rows = rows == 0 ? of : std::min(rows, of);
  }
  return rows;
}

HostTensor input_of(const SourceGraph& g, int v, const SyntheticShape& shape, Random& random) {
  const SourceValue& x = g.value(v);
  const Dims dims = dims_of(g, x, shape);
  if (is_float(x.dtype)) return normal_numbers(dims, random).cast(x.dtype);
  const int64_t rows = rows_looked_up(g, v);
  return rows > 0
             ? whole_numbers(dims, rows, random).cast(x.dtype)
             : HostTensor::of<int64_t>(dims, std::vector<int64_t>(static_cast<size_t>(numel(dims)), 1)).cast(x.dtype);
}

// Returns random labels. They have the shape of the output without the axis of classes. Losses without classes get
// normally distributed numbers.
HostTensor label_of(const LossSpec& s, const Dims& out, Random& random) {
  const LossRule& rule = loss_rule(s.kind);
  const bool of_elements = rule.classes == ClassAxis::of_rows_or_elements;
  if (rule.classes == ClassAxis::none || rule.classes == ClassAxis::tokens || of_elements) {
    if (rule.max_outputs == 1) return normal_numbers(out, random);
    fail(Exit::usage, "E_LOSS", cat("there are no synthetic labels for the loss ", s.kind),
         "give data with `train` FILE");
  }
  const bool of_tokens = rule.classes == ClassAxis::of_tokens;
  const size_t axis = of_tokens ? out.size() - 1 : 1;
  if (out.size() < 2 || (rule.classes == ClassAxis::of_rows && out.size() != 2))
    fail(Exit::usage, "E_LOSS", cat("the loss ", s.kind, " takes classes, and the output has shape ", to_string(out)),
         "name another with `loss` KIND");
  Dims places = out;
  places.erase(places.begin() + static_cast<std::ptrdiff_t>(axis));
  return whole_numbers(places, std::max<int64_t>(out[axis], 1), random);
}

std::vector<Dims> output_dims(const SourceGraph& g, const LossSpec& s, const SyntheticShape& shape) {
  const std::vector<int> outputs = values_of(g, Losses(s));
  const std::vector<Dims> all = probe_shapes(g, ParamTable(g), bind_options(g, outputs, shape), cpu_evaluator());
  std::vector<Dims> out;
  for (const int v : outputs) out.push_back(all[static_cast<size_t>(v)]);
  return out;
}

}  // namespace

bool is_of_classes(const SourceGraph& g, const LossSpec& loss, const SyntheticShape& shape) {
  const std::vector<Dims> out = output_dims(g, loss, shape);
  return out.size() == 1 && out[0].size() == 2 && out[0][1] > 1;
}

Tensors synthetic_inputs(const SourceGraph& g, const std::vector<int>& outputs, const SyntheticShape& shape,
                         uint64_t seed) {
  Random random(seed);
  Tensors out;
  for (const int v : needed_inputs(g, outputs)) out[g.value(v).name] = input_of(g, v, shape, random);
  return out;
}

Tensors synthetic_data(const SourceGraph& g, const Losses& losses, const SyntheticShape& shape, uint64_t seed) {
  Random random(seed);
  Tensors out;
  for (const int v : needed_inputs(g, values_of(g, losses))) out[g.value(v).name] = input_of(g, v, shape, random);
  for (const LossSpec& s : losses.parts) {
    if (s.label_name().empty() || out.count(s.label_name())) continue;
    const std::vector<Dims> dims = output_dims(g, s, shape);
    out[s.label_name()] = label_of(s, dims.at(0), random);
  }
  return out;
}

}  // namespace amp
