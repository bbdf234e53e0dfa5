// grad: the loss of one batch and the gradient of every trainable parameter, written as safetensors in fp32 under the
// parameters' ONNX names. For checks against other frameworks.
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/safetensors.h"
#include "tools/common.h"
#include "tools/run_losses.h"
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
  asked_losses(opts);
  const Imported model = open_model(opts);
  const SourceGraph& g = model.graph;
  const Tensors batch = read_batch(opts.str("inputs"));
  Losses losses = choose_losses(opts, g);
  print_losses(losses, bypass_endings(g, losses));
  require_known_operators(g, values_of(g, losses));
  Session session(g, session_options(opts, choose_plan(opts, g)));
  LossWindow window(losses);
  window.count(batch);
  window.add(session.train_micro(losses, batch, window.seeds(1), false));

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
  std::cout << nlohmann::json{{"loss", window.loss()}, {"parameters", out.size()}, {"out", opts.str("out")}}.dump() << '\n';
  return 0;
}

}  // namespace amp
