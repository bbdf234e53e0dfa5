// The functions of onnx_amp.h that work on a session. Each one checks its pointers, converts its arguments and calls
// StepSession (run/steps/) inside guarded(), which turns exceptions into status codes.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "capi/last_error.h"
#include "capi/onnx_amp.h"
#include "capi/spec.h"
#include "run/steps/step_session.h"

using amp::capi::guarded;
using amp::capi::require_pointer;

struct onnx_amp_session {
  explicit onnx_amp_session(std::unique_ptr<amp::StepSession> s) : steps(std::move(s)), inputs(steps->inputs()) {}

  amp::capi::LastError error;
  std::unique_ptr<amp::StepSession> steps;
  const std::vector<amp::InputSpec> inputs;
  std::vector<amp::ParameterInfo> parameters;  // set by the first call that prepared the session
  std::vector<std::pair<std::string, amp::HostTensor>> outputs, encoded;
  std::vector<onnx_amp_tensor> encoded_tensors;  // views of the tensors in `encoded`
  onnx_amp_batch encoded_batch = {};
  std::string metrics, saved;
};

namespace {

// Calls body(session), and stores a failure in the session. Fails if the session is null.
template <class F>
onnx_amp_status with(onnx_amp_session* s, const F& body) {
  if (!s) return guarded(amp::capi::thread_error(), [] { require_pointer(nullptr, "session"); });
  return guarded(s->error, [&] { body(*s); });
}

void prepared(onnx_amp_session& s) {
  if (s.parameters.empty() && s.steps->prepared()) s.parameters = s.steps->parameters();
}

void require_index(size_t index, size_t size, const char* what) {
  if (index >= size)
    amp::fail(amp::Exit::usage, "E_USAGE", amp::cat("there is no ", what, " ", index, ": there are ", size),
              "count from 0");
}

onnx_amp_tensor describe(const std::string& name, amp::DType type, const amp::Dims* dims, const void* data) {
  return {name.c_str(), amp::capi::dtype_of(type), dims ? static_cast<int32_t>(dims->size()) : -1,
          dims ? dims->data() : nullptr, data};
}

// JSON has no NaN or infinity, so a metric with such a value is null.
std::string metrics_json(const amp::Metrics& m) {
  nlohmann::ordered_json out{{"loss", m.loss}};
  for (const auto& [name, value] : m.values) out[name] = value;
  return out.dump();
}

}  // namespace

onnx_amp_status onnx_amp_open(const char* spec, const onnx_amp_options* options, onnx_amp_session** session) {
  return guarded(amp::capi::thread_error(), [&] {
    require_pointer(session, "session");
    *session = nullptr;
    const onnx_amp_options o = amp::capi::options_of(options);
    const amp::Host host = amp::capi::host_of(o);
    const amp::RunSpec settings = amp::capi::spec_of_json(spec, host.log);
    *session =
        std::make_unique<onnx_amp_session>(std::make_unique<amp::StepSession>(settings, host, o.samples_per_epoch))
            .release();
  });
}

void onnx_amp_close(onnx_amp_session* session) { delete session; }

const onnx_amp_error* onnx_amp_last_error(const onnx_amp_session* session) {
  return session ? session->error.get() : amp::capi::thread_error().get();
}

size_t onnx_amp_input_count(const onnx_amp_session* session) { return session ? session->inputs.size() : 0; }

onnx_amp_status onnx_amp_input(onnx_amp_session* session, size_t index, onnx_amp_tensor* input) {
  return with(session, [&](onnx_amp_session& s) {
    require_pointer(input, "input");
    require_index(index, s.inputs.size(), "input");
    const amp::InputSpec& i = s.inputs[index];
    *input = describe(i.name, i.dtype, i.dims ? &*i.dims : nullptr, nullptr);
  });
}

onnx_amp_status onnx_amp_encode(onnx_amp_session* session, const char* const* texts, const char* const* pairs,
                                size_t count, const onnx_amp_batch** batch) {
  return with(session, [&](onnx_amp_session& s) {
    require_pointer(batch, "batch");
    require_pointer(texts, "texts");
    std::vector<std::string_view> first, second;
    for (size_t i = 0; i < count; ++i) {
      require_pointer(texts[i], "texts[i]");
      first.emplace_back(texts[i]);
      if (!pairs) continue;
      require_pointer(pairs[i], "pairs[i]");
      second.emplace_back(pairs[i]);
    }
    const amp::Tensors made = s.steps->encode(first, second);
    s.encoded.assign(made.begin(), made.end());
    s.encoded_tensors.clear();
    for (const auto& [name, t] : s.encoded) s.encoded_tensors.push_back(describe(name, t.dtype(), &t.dims(), t.data()));
    s.encoded_batch = {s.encoded_tensors.data(), s.encoded_tensors.size()};
    *batch = &s.encoded_batch;
  });
}

onnx_amp_status onnx_amp_prepare(onnx_amp_session* session, const onnx_amp_batch* batch) {
  return with(session, [&](onnx_amp_session& s) {
    s.steps->prepare(amp::capi::tensors_of(batch));
    prepared(s);
  });
}

onnx_amp_status onnx_amp_train_step(onnx_amp_session* session, const onnx_amp_batch* micro_batches, size_t count,
                                    onnx_amp_step* step) {
  return with(session, [&](onnx_amp_session& s) {
    amp::capi::require_size(step, "onnx_amp_step");
    if (count > 0) require_pointer(micro_batches, "micro_batches");
    std::vector<amp::Tensors> batches;
    for (size_t i = 0; i < count; ++i) batches.push_back(amp::capi::tensors_of(&micro_batches[i]));
    const amp::StepResult r = s.steps->train_step(batches);
    prepared(s);
    amp::capi::give(step,
                    {0, r.step + 1, r.applied_steps, r.loss, r.grad_norm, r.lr, r.scale.used, r.skipped() ? 1 : 0, 0});
  });
}

onnx_amp_status onnx_amp_eval_step(onnx_amp_session* session, const onnx_amp_batch* batch,
                                   onnx_amp_evaluation* evaluation) {
  return with(session, [&](onnx_amp_session& s) {
    amp::capi::require_size(evaluation, "onnx_amp_evaluation");
    const amp::StepSession::Evaluated e = s.steps->eval_step(amp::capi::tensors_of(batch));
    s.outputs.assign(s.steps->outputs().begin(), s.steps->outputs().end());
    amp::capi::give(evaluation, {0, e.loss, e.samples});
  });
}

onnx_amp_status onnx_amp_eval_finish(onnx_amp_session* session, onnx_amp_evaluation* evaluation, const char** metrics) {
  return with(session, [&](onnx_amp_session& s) {
    amp::capi::require_size(evaluation, "onnx_amp_evaluation");
    const amp::Metrics m = s.steps->eval_finish();
    s.metrics = metrics_json(m);
    amp::capi::give(evaluation, {0, m.loss, m.samples});
    if (metrics) *metrics = s.metrics.c_str();
  });
}

size_t onnx_amp_output_count(const onnx_amp_session* session) { return session ? session->outputs.size() : 0; }

onnx_amp_status onnx_amp_output(onnx_amp_session* session, size_t index, onnx_amp_tensor* output) {
  return with(session, [&](onnx_amp_session& s) {
    require_pointer(output, "output");
    require_index(index, s.outputs.size(), "output");
    const auto& [name, tensor] = s.outputs[index];
    *output = describe(name, tensor.dtype(), &tensor.dims(), tensor.data());
  });
}

onnx_amp_status onnx_amp_get_lr(onnx_amp_session* session, double* lr) {
  return with(session, [&](onnx_amp_session& s) {
    require_pointer(lr, "lr");
    *lr = s.steps->lr();
  });
}

onnx_amp_status onnx_amp_set_lr(onnx_amp_session* session, double lr) {
  return with(session, [&](onnx_amp_session& s) { s.steps->set_lr(lr); });
}

onnx_amp_status onnx_amp_get_loss_scale(onnx_amp_session* session, float* scale) {
  return with(session, [&](onnx_amp_session& s) {
    require_pointer(scale, "scale");
    *scale = s.steps->loss_scale();
  });
}

onnx_amp_status onnx_amp_set_loss_scale(onnx_amp_session* session, float scale) {
  return with(session, [&](onnx_amp_session& s) { s.steps->set_loss_scale(scale); });
}

size_t onnx_amp_parameter_count(const onnx_amp_session* session) { return session ? session->parameters.size() : 0; }

onnx_amp_status onnx_amp_parameter_info(onnx_amp_session* session, size_t index, onnx_amp_parameter* parameter) {
  return with(session, [&](onnx_amp_session& s) {
    require_pointer(parameter, "parameter");
    amp::capi::require_size(parameter, "onnx_amp_parameter");
    require_index(index, s.parameters.size(), "parameter");
    const amp::ParameterInfo& p = s.parameters[index];
    amp::capi::give(parameter, {0, p.name.c_str(), p.dims.data(), static_cast<int32_t>(p.dims.size()), p.trained,
                                p.statistic, 0, amp::numel(p.dims)});
  });
}

onnx_amp_status onnx_amp_get_parameter(onnx_amp_session* session, const char* name, float* values, size_t elements) {
  return with(session, [&](onnx_amp_session& s) {
    require_pointer(name, "name");
    const amp::HostTensor t = s.steps->parameter(name);
    amp::capi::require_elements(name, t, elements);
    if (elements > 0) require_pointer(values, "values");
    std::copy_n(t.as<float>(), t.numel(), values);
  });
}

onnx_amp_status onnx_amp_set_parameter(onnx_amp_session* session, const char* name, const float* values,
                                       size_t elements) {
  return with(session, [&](onnx_amp_session& s) {
    require_pointer(name, "name");
    const amp::HostTensor now = s.steps->parameter(name);
    amp::capi::require_elements(name, now, elements);
    if (elements > 0) require_pointer(values, "values");
    s.steps->set_parameter(name, {amp::DType::f32, now.dims(), std::shared_ptr<const void>(), values});
  });
}

onnx_amp_status onnx_amp_save_state(onnx_amp_session* session, const char* folder, const char** path) {
  return with(session, [&](onnx_amp_session& s) {
    require_pointer(folder, "folder");
    s.saved = s.steps->save(folder);
    if (path) *path = s.saved.c_str();
  });
}

onnx_amp_status onnx_amp_load_state(onnx_amp_session* session, const char* path) {
  return with(session, [&](onnx_amp_session& s) {
    require_pointer(path, "path");
    s.steps->load(path);
  });
}

onnx_amp_status onnx_amp_export(onnx_amp_session* session, const char* path) {
  return with(session, [&](onnx_amp_session& s) {
    require_pointer(path, "path");
    s.steps->export_model(path);
  });
}
