// Runs two training steps on the dry device (tests/emulator/dry_device.h), which records launches, bytes and
// operations, and bounds their time by bandwidth, arithmetic and launch latency (the roofline model).
#include "bench/roofline/roofline.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "importer/surgery/dropout.h"
#include "precision/decide.h"
#include "trainer/compile/session.h"
#include "trainer/compile/update_profile.h"

namespace amp {

namespace {

// Adds the bytes of the update, which are not operands of nodes: gradients for their norm, then all state.
void add_update_bytes(std::vector<cuda::Work>& work, const UpdateSpec& spec, const ParamCache& copies) {
  const int64_t inspected = 4 * spec.elements;
  for (cuda::Work& w : work) {
    if (w.op == "Inspect") w.bytes = inspected;
    if (w.op == "Apply") w.bytes = update_bytes(spec, copies.copies()) - inspected;
  }
}

}  // namespace

StepWork step_work(const ModelRequest& r) {
  const auto device = cuda::make_dry_device(r.device);
  SessionOptions o;
  o.device = device.get();
  o.batchnorm_train = r.batch_statistics;
  if (r.low != DType::f32) {
    o.low = r.low;
    for (const Decision& d : decide(r.source, preset("O1"), r.low).nodes) o.compute.push_back(dtype_of(d.compute));
  }
  LossSpec loss = r.loss;
  if (loss.outputs.empty()) loss.outputs = loss.reads = {"logits"};
  if (loss.label.empty()) loss.label = "label";
  const Losses losses = loss;
  Session session(r.source, o);
  session.prepare(losses, r.batch);

  UpdateSpec spec;
  session.describe(spec);
  spec.optimizer.weight_decay = 0.01;
  spec.optimizer.max_grad_norm = 1;
  spec.lr = [](int64_t) { return 1e-4; };
  const std::unique_ptr<DeviceUpdate> update = device->make_update(spec);

  StepWork out;
  out.attentions = device->attentions();
  out.convolutions = device->convolutions();
  out.parameters = spec.elements;
  // Graphs are recorded between seed() and add_term(), and in apply(). The first run records none, so the second is
  // kept.
  for (int step = 0; step < 2; ++step) {
    std::vector<cuda::Work>& work = device->work();
    work.clear();
    update->begin({1});
    session.launch_micro_batch(losses, r.batch, *update, false);
    out.micro = std::move(work);
    work.clear();
    update->apply();
    out.update = std::move(work);
    work.clear();
  }
  add_update_bytes(out.update, spec, session.copies());
  const auto outside = [](const cuda::Work& w) {
    return w.op == "upload" || w.op == "ClearTerms" || w.op == "Seed" || w.op == "AddTerm";
  };
  std::copy_if(out.micro.begin(), out.micro.end(), std::back_inserter(out.around), outside);
  out.micro.erase(std::remove_if(out.micro.begin(), out.micro.end(), outside), out.micro.end());
  return out;
}

StepWork step_work(const StepRequest& r) {
  ModelRequest q{bert_graph(r.model), bert_batch(r.model, r.batch, r.length), {}, false, r.low, r.device};
  if (r.dropout > 0) {
    DropoutOptions dropout;
    dropout.ratio = r.dropout;
    dropout.asked = true;
    dropout.outputs = q.source.outputs;
    std::vector<std::string> notes;
    insert_dropout(q.source, dropout, notes);
  }
  return step_work(q);
}

StepWork step_work(const UnetRequest& r) {
  ModelRequest q{unet_graph(r.model), unet_batch(r.model, r.batch, r.side), {}, true, r.low, r.device};
  q.loss.kind = "cross_entropy_nchw";
  return step_work(q);
}

int64_t StepWork::nodes() const {
  int64_t n = 0;
  for (const auto* part : {&micro, &update}) {
    for (const cuda::Work& w : *part) n += w.launches + w.copies;
  }
  return n;
}

double DeviceDescription::flops_of(DType t) const {
  for (const auto& [name, value] : tflops) {
    if (name == name_of(t)) return value * 1e12;
  }
  fail(Exit::usage, "E_ROOFLINE_DEVICE", cat("the device's tflops say nothing of ", name_of(t)));
}

DeviceDescription read_device(const std::string& text) {
  const nlohmann::json j = nlohmann::json::parse(text);
  DeviceDescription d;
  d.name = j.at("name").get<std::string>();
  d.bandwidth = j.at("bandwidth_tb_s").get<double>() * 1e12;
  d.node_seconds = j.at("node_us").get<double>() * 1e-6;
  for (const auto& [name, value] : j.at("tflops").items()) d.tflops.emplace_back(name, value.get<double>());
  return d;
}

double least_seconds(const cuda::Work& w, const DeviceDescription& d) {
  const double memory = static_cast<double>(w.bytes) / d.bandwidth,
               arithmetic = w.flops > 0 ? w.flops / d.flops_of(w.type) : 0;
  return std::max(memory, arithmetic) + static_cast<double>(w.launches + w.copies) * d.node_seconds;
}

std::vector<KindTotal> totals(const std::vector<cuda::Work>& work, const DeviceDescription& d) {
  std::map<std::string, KindTotal> by_op;
  for (const cuda::Work& w : work) {
    KindTotal& t = by_op[w.op];
    t.op = w.op;
    t.nodes += w.launches + w.copies;
    t.bytes += w.bytes;
    t.flops += w.flops;
    t.seconds += least_seconds(w, d);
  }
  std::vector<KindTotal> out;
  for (const auto& [op, t] : by_op) out.push_back(t);
  std::stable_sort(out.begin(), out.end(),
                   [](const KindTotal& a, const KindTotal& b) { return a.seconds > b.seconds; });
  return out;
}

}  // namespace amp
