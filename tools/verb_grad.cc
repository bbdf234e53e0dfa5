// grad: the loss of one batch and the gradient of every trainable parameter, written as safetensors in fp32 under the
// parameters' ONNX names. For checks against other frameworks.
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/safetensors.h"
#include "tools/common.h"
#include "tools/verbs.h"

namespace amp {

namespace {
HostTensor transposed(const HostTensor& t) {
  const int64_t rows = t.dims().at(0), cols = t.dims().at(1);
  HostTensor out = HostTensor::empty(DType::f32, {cols, rows});
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) out.as_mutable<float>()[j * rows + i] = t.as<float>()[i * cols + j];
  }
  return out;
}
}  // namespace

int run_grad(const cli::Options& opts) {
  set_threads(opts);
  const Imported model = open_model(opts);
  const SourceGraph& g = model.graph;
  const Tensors batch = read_batch(opts.str("inputs"));
  const LossSpec loss = choose_loss(opts, g);
  std::vector<int> outputs;
  for (const std::string& name : loss.outputs) {
    if (g.find(name) >= 0) outputs.push_back(g.find(name));
  }
  require_known_operators(g, outputs);
  Session session(g, session_options(opts, choose_plan(opts, g)));
  if (batch.find("label") == batch.end()) fail(Exit::data, "E_DATA_COLUMN", cat(opts.str("inputs"), ": no tensor called 'label'"));
  const std::vector<double> items = count_items(loss, batch.at("label"));
  std::vector<double> seeds;
  for (const double n : items) seeds.push_back(n > 0 ? (items.size() == 2 ? 0.5 : 1.0) / n : 0.0);
  const std::vector<double> sums = session.train_micro(loss, batch, seeds, false);
  double value = 0;
  for (size_t i = 0; i < sums.size(); ++i) value += sums[i] * seeds[i];

  std::vector<NamedTensor> out;
  for (size_t i = 0; i < g.values.size(); ++i) {
    const SourceValue& v = g.values[i];
    if (v.kind != SourceKind::parameter) continue;
    const int slot = session.table().slot_of[i];
    if (!session.has_grad(slot)) continue;
    const HostTensor grad = session.grad(slot).cast(DType::f32);
    out.push_back({v.name, v.tied_transposed ? transposed(grad) : grad});
  }
  write_safetensors(opts.str("out"), out);
  std::cout << nlohmann::json{{"loss", value}, {"parameters", out.size()}, {"out", opts.str("out")}}.dump() << '\n';
  return 0;
}

}  // namespace amp
