// Golden models and tensors of tests/data/surgery, and a forward and backward pass on one batch.
#pragma once

#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/interpreter.h"
#include "base/error.h"
#include "base/npz.h"
#include "importer/read/import.h"
#include "importer/write/export.h"
#include "tests/errors.h"
#include "tests/support.h"
#include "trainer/compile/session.h"
#include "trainer/loop/micro_batches.h"

namespace amp::test {

const std::string kData = test_data("surgery/");
const std::string kZoo = test_data("zoo/");

inline nlohmann::json json_of(const std::string& name) {
  std::ifstream in(kData + name);
  REQUIRE(in.good());
  return nlohmann::json::parse(in);
}

inline Tensors tensors_of(const std::string& path) {
  Tensors out;
  for (NamedTensor& t : read_tensor_file(path)) out[t.name] = std::move(t.tensor);
  return out;
}

inline Tensors pick(const Tensors& from, const std::vector<std::string>& names) {
  Tensors out;
  for (const std::string& n : names) out[n] = from.at(n);
  return out;
}

// Returns the mean loss over a batch, with the gradients left in the session.
inline double step_loss(Session& s, const LossSpec& loss, const Tensors& batch) {
  const std::vector<double> items = count_items(loss, batch.at("label"));
  std::vector<double> seeds;
  for (const double n : items) seeds.push_back((items.size() == 2 ? 0.5 : 1.0) / n);
  const std::vector<double> sums = run_micro_batch(s, loss, batch, seeds, false);
  double value = 0;
  for (size_t i = 0; i < sums.size(); ++i) value += sums[i] * seeds[i];
  return value;
}

// Returns the largest difference relative to the largest wanted value.
inline double difference(const HostTensor& have, const HostTensor& want) {
  const std::vector<double> a = have.to_doubles(), b = want.to_doubles();
  REQUIRE(a.size() == b.size());
  double worst = 0, largest = 1e-12;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::isfinite(a[i]) ? std::max(worst, std::abs(a[i] - b[i])) : INFINITY;
    largest = std::max(largest, std::abs(b[i]));
  }
  return worst / largest;
}

inline std::vector<TrainedTensor> all_parameters(const Session& s) {
  std::vector<TrainedTensor> out;
  for (size_t i = 0; i < s.table().size(); ++i)
    out.push_back({s.table().source_value[i], s.param(static_cast<int>(i))});
  return out;
}

inline BindOptions shapes_for(const SourceGraph& g, const std::vector<int>& outputs, int64_t length) {
  BindOptions o;
  o.outputs = outputs;
  for (const int v : needed_inputs(g, outputs)) {
    const SourceValue& x = g.values[static_cast<size_t>(v)];
    Dims d;
    for (size_t i = 0; i < x.dims.size(); ++i) d.push_back(x.dims[i].value > 0 ? x.dims[i].value : i == 0 ? 2 : length);
    o.input_dims[x.name] = d;
  }
  return o;
}

}  // namespace amp::test
