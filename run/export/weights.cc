// Moves weights between checkpoints, sessions and model files, and compares an exported file with the trained graph.
// The comparison allows 1e-4 of the largest output in fp32 and 1e-2 if the file stores 16-bit values.
#include "run/export/weights.h"

#include <algorithm>
#include <cmath>

#include "base/activity.h"
#include "base/text.h"
#include "data/loader.h"
#include "precision/safety.h"
#include "run/model/adapters.h"
#include "run/model/decoder_folder.h"
#include "run/model/fixed_inputs.h"
#include "run/model/fixed_shapes.h"
#include "run/prepare/engine_notes.h"
#include "run/prepare/prepare.h"
#include "run/spec/output.h"

namespace amp {

namespace {

const HostTensor& tensor_of(const Checkpoint& checkpoint, const std::string& name, const Chunk& chunk) {
  const auto it = checkpoint.tensors.find(name);
  if (it == checkpoint.tensors.end() || it->second.dtype() != DType::f32 || it->second.dims() != chunk.dims) {
    fail(Exit::checkpoint, "E_CKPT_MISMATCH",
         cat("the checkpoint holds no tensor '", printable(name), "' of float32", to_string(chunk.dims)),
         "it was written for another model");
  }
  return it->second;
}

// Calls f(x, y) for each pair of elements of two tensors. Converts kAtOnce elements at a time, because logits of a
// language model are large.
template <class F>
void each_pair(const HostTensor& a, const HostTensor& b, const F& f) {
  check(a.dims() == b.dims(), "an exported output of another shape");
  constexpr int64_t kAtOnce = 4096;
  double x[kAtOnce], y[kAtOnce];
  const auto some = [](const HostTensor& t, int64_t from, int64_t n, double* to) {
    convert(t.dtype(), static_cast<const char*>(t.data()) + from * size_of(t.dtype()), DType::f64, to, n);
  };
  for (int64_t from = 0; from < a.numel(); from += kAtOnce) {
    const int64_t n = std::min(kAtOnce, a.numel() - from);
    some(a, from, n, x);
    some(b, from, n, y);
    for (int64_t i = 0; i < n; ++i) f(x[i], y[i]);
  }
}

}  // namespace

std::vector<std::string> trained_names(const Session& session) {
  std::vector<std::string> out;
  const FlatLayout moving = session.moving();
  for (const Chunk& c : moving.chunks()) {
    if (!c.frozen) out.push_back(c.name);
  }
  return out;
}

void load_weights(Session& session, const Checkpoint& checkpoint, const std::vector<std::string>& trained) {
  HostTensor params = session.host_params();
  for (const std::string& name : trained) {
    const auto& chunks = session.layout().chunks();
    const auto c = std::find_if(chunks.begin(), chunks.end(), [&](const Chunk& x) { return x.name == name; });
    if (c == chunks.end()) {
      fail(Exit::checkpoint, "E_CKPT_MISMATCH",
           cat("the model has no parameter '", printable(name), "' of the checkpoint"),
           "it was written for another model");
    }
    const HostTensor& t = tensor_of(checkpoint, "param/" + name, *c);
    std::copy_n(t.as<float>(), c->numel, params.as_mutable<float>() + c->offset);
  }
  session.set_params(params);
}

void load_average(Session& session, const Checkpoint& checkpoint, const std::string& name) {
  HostTensor params = session.host_params();
  for (const Chunk& c : session.layout().chunks()) {
    const std::string key = cat(name, '/', c.name);
    if (!checkpoint.tensors.count(key)) continue;
    std::copy_n(tensor_of(checkpoint, key, c).as<float>(), c.numel, params.as_mutable<float>() + c.offset);
  }
  session.set_params(params);
}

std::vector<TrainedTensor> trained_tensors(const Session& session) {
  const auto span = std::make_shared<const HostTensor>(session.host_params());
  std::vector<TrainedTensor> out;
  for (size_t i = 0; i < session.table().size(); ++i) {
    const Chunk& c = session.layout().chunks()[i];
    out.push_back(
        {session.table().source_value[i], HostTensor(DType::f32, c.dims, span, span->as<float>() + c.offset)});
  }
  return out;
}

void export_weights(const OutputSpec& output, const PreparedModel& ready, const PrecisionPlan& plan,
                    std::vector<TrainedTensor> tensors, const std::map<std::string, std::string>& metadata,
                    const std::string& path, const Log& log, bool keep_refused) {
  ExportOptions e;
  e.keep_refused = keep_refused;
  e.precision = output.export_types();
  if (plan.any_low()) {
    for (const Decision& d : plan.nodes) e.compute.push_back(dtype_of(d.compute));
  }
  if (e.precision == "mixed" && !plan.any_low()) {
    log.note(
        "`export_precision` mixed: the precision plan computes nothing in 16 bits, so the file stays in fp32 "
        "(`export_precision` fp16 rounds all of it)");
  }
  if (e.precision == "fp16") e.wide = epsilon_in_fp32(ready.model.graph, DType::f16);
  e.metadata = metadata;
  e.inference_form = true;
  const SourceGraph& g = ready.model.graph;
  for (const std::string& note : engine_notes(g, e)) log.note(note);
  tensors = merge_lora(g, ready.trainable.lora, std::move(tensors));
  e.slots = slots_to_add(output, ready.trainable);
  for (const std::string& note : export_model(*ready.model.doc, g, tensors, e, path).notes) log.note(note);
}

Tensors export_batch(const PreparedRun& run) {
  const Dataset& data = run.data.val ? *run.data.val : *run.data.train;
  // number of samples of a batch; 0 if batches are counted in tokens
  const int64_t rows = run.config.sampler.batch_size;
  SamplerOptions o;
  o.order = Order::file;
  o.batch_size = std::min({int64_t{8}, data.size(), rows > 0 ? rows : data.size()});
  Sampler sampler = make_sampler(data, o);
  return to_tensors(load_window(data, sampler.next()).batches.at(0), nullptr);
}

ExportReference export_reference(Session& session, const Losses& losses, const Tensors& batch) {
  ExportReference out;
  out.batch = batch;
  out.fixed = fixed_inputs(session.source());
  std::vector<int> values;
  for (const std::string& name : losses.outputs()) values.push_back(session.source().find(name));
  out.outputs = session.forward(values, batch, true);
  for (const SourceValue& v : session.source().values)
    out.stored_low |= v.kind == SourceKind::parameter && is_low(v.data.dtype());
  return out;
}

double compare_export(const ExportReference& reference, const WrittenModel& written, const Losses& losses,
                      const std::string& precision) {
  const Activity comparing(cat("comparing ", name_in_folder(written.model), " with the trained model"));
  std::vector<std::string> fed;
  for (const auto& [name, tensor] : reference.batch) fed.push_back(name);
  Imported exported = import_fed(written.model, fed);
  apply_adapter(written.adapter, exported.graph, Log());
  set_fixed_inputs(exported.graph, reference.fixed);
  std::vector<int> theirs;
  for (const std::string& name : losses.outputs()) {
    theirs.push_back(exported.graph.find(name));
    if (theirs.back() < 0) fail(Exit::internal, "E_EXPORT_CHECK", cat("the exported file has no output '", name, "'"));
  }
  fix_shapes(exported.graph, theirs);
  Session other(exported.graph, {});
  release_parameters(exported);
  const Tensors &a = reference.outputs, b = other.forward(theirs, reference.batch);
  double worst = 0, largest = 0;
  for (const std::string& name : losses.outputs()) {
    each_pair(a.at(name), b.at(name), [&](double x, double y) {
      const double d = std::abs(x - y);
      worst = std::isfinite(d) ? std::max(worst, d) : (std::isfinite(x) ? INFINITY : worst);
      if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
    });
  }
  // The limit is larger for weights that the file stores in 16 bits, because they are rounded on export.
  const bool rounded = one_of(precision, {"fp16", "mixed"}) || reference.stored_low;
  const double limit = (rounded ? 1e-2 : 1e-4) * largest + 1e-6;
  if (!(worst <= limit)) {
    fail(Exit::internal, "E_EXPORT_CHECK",
         cat("the exported model differs from the trained one by ", worst, " (limit ", limit, ")"),
         rounded ? "export with `export_precision` fp32" : "please report this");
  }
  return worst;
}

}  // namespace amp
