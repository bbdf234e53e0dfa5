#include "base/error.h"
#include "trainer/metrics.h"
#include "trainer/trainer.h"

namespace amp {

double Metrics::value(const std::string& name) const {
  if (name == "loss") return loss;
  if (name == "accuracy") return accuracy;
  if (name == "macro_f1") return macro_f1;
  bug("no metric " + name);
}

Tensors to_tensors(const Batch& batch) {
  Tensors t = batch.inputs;
  if (batch.labels) t["label"] = batch.labels;
  return t;
}

Metrics evaluate(Session& session, const LossSpec& loss, const Dataset& data, int64_t batch_size) {
  SamplerOptions o;
  o.order = Order::by_length;
  o.batch_size = batch_size;
  WindowLoader loader(data, Sampler(data.size(), data.lengths(), o), 1);
  std::vector<LossAverage> terms;
  std::unique_ptr<Classification> classes;
  Metrics m;
  m.classification = loss.kind == "cross_entropy";
  while (const auto window = loader.next()) {
    const Batch& batch = window->batches.at(0);
    if (!batch.labels) fail(Exit::data, "E_DATA_COLUMN", "the validation data has no labels");
    Tensors outputs;
    const std::vector<double> sums = session.eval_micro(loss, to_tensors(batch), m.classification ? &outputs : nullptr);
    const std::vector<double> items = count_items(loss, batch.labels);
    terms.resize(sums.size());
    for (size_t i = 0; i < sums.size(); ++i) terms[i].add_sum(sums[i], items[i]);
    m.samples += batch.rows;
    if (!m.classification) continue;
    const HostTensor logits = outputs.at(loss.outputs[0]).cast(DType::f32);
    const int64_t c = logits.dims().back();
    if (!classes) classes = std::make_unique<Classification>(c);
    const std::vector<int64_t> predicted = argmax_rows(logits.as<float>(), logits.numel() / c, c);
    classes->add(predicted, batch.labels.to_ints(), loss.ignore_index);
  }
  for (const LossAverage& t : terms) m.loss += t.value() / static_cast<double>(terms.size());
  if (classes) {
    m.accuracy = classes->accuracy();
    m.macro_f1 = classes->macro_f1();
  }
  return m;
}

}  // namespace amp
