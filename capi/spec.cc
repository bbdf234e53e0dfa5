#include "capi/spec.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "capi/last_error.h"
#include "tools/cli/config.h"
#include "tools/spec_of.h"

namespace amp::capi {

namespace {

constexpr std::array<std::pair<onnx_amp_dtype, DType>, 13> kTypes{{{ONNX_AMP_FLOAT32, DType::f32},
                                                                   {ONNX_AMP_UINT8, DType::u8},
                                                                   {ONNX_AMP_INT8, DType::i8},
                                                                   {ONNX_AMP_UINT16, DType::u16},
                                                                   {ONNX_AMP_INT16, DType::i16},
                                                                   {ONNX_AMP_INT32, DType::i32},
                                                                   {ONNX_AMP_INT64, DType::i64},
                                                                   {ONNX_AMP_BOOL, DType::boolean},
                                                                   {ONNX_AMP_FLOAT16, DType::f16},
                                                                   {ONNX_AMP_FLOAT64, DType::f64},
                                                                   {ONNX_AMP_UINT32, DType::u32},
                                                                   {ONNX_AMP_UINT64, DType::u64},
                                                                   {ONNX_AMP_BFLOAT16, DType::bf16}}};

HostTensor tensor_of(const onnx_amp_tensor& t) {
  const auto type = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& row) { return row.first == t.dtype; });
  if (type == kTypes.end())
    fail(Exit::usage, "E_USAGE", cat("tensor '", printable(t.name), "' has the unknown element type ", t.dtype),
         "give one of the ONNX_AMP_FLOAT32, ... of onnx_amp.h");
  if (t.rank < 0 || (t.rank > 0 && !t.dims))
    fail(Exit::usage, "E_NULL", cat("tensor '", printable(t.name), "' has no dims"), "give `rank` dims");
  const Dims dims(t.dims, t.dims + t.rank);
  for (const int64_t d : dims) {
    if (d < 0) fail(Exit::data, "E_DATA_SHAPE", cat("tensor '", printable(t.name), "' has the size ", d));
  }
  // The data pointer of a tensor without elements may be null.
  static const char none = 0;
  if (numel(dims) > 0) require_pointer(t.data, "data");
  return {type->second, dims, std::shared_ptr<const void>(), t.data ? t.data : &none};
}

}  // namespace

RunSpec spec_of_json(const char* json, const Log& log) {
  require_pointer(json, "spec");
  cli::Options options(cli::Verb::train);
  for (const cli::Assignment& a : cli::parse_config(json, "the spec", cli::Verb::train, options.warnings))
    options.offer(a.flag->name, a.texts, a.source, a.origin);
  for (const char* name : {"dry_run", "check_data"}) {
    if (options.flag(name)) fail(Exit::usage, "E_USAGE", cat('`', name, "` is for the command line"), "leave it out");
  }
  cli::resolve(options);
  for (const std::string& w : options.warnings) log.warning(w);
  if (!options.has("model")) fail(Exit::usage, "E_USAGE", "the spec names no `model`", R"(add "model": "model.onnx")");
  return spec_of(options);
}

onnx_amp_options options_of(const onnx_amp_options* given) {
  require_size(given, "onnx_amp_options");
  onnx_amp_options out = {};
  if (given) std::memcpy(&out, given, std::min(given->size, sizeof out));
  out.size = sizeof out;
  return out;
}

Host host_of(const onnx_amp_options& o) {
  Host host;
  if (o.log) {
    host.log =
        Log([log = o.log, user = o.user, one = std::make_shared<std::mutex>()](Level level, const std::string& text) {
          const std::lock_guard lock(*one);
          log(user, static_cast<int32_t>(level), text.c_str());
        });
  }
  if (o.progress) {
    host.progress = [progress = o.progress, user = o.user](const ProgressState& p) {
      if (p.over) return;
      const onnx_amp_progress now{p.step, p.total, p.epoch, p.loss, p.lr, p.seconds, p.samples_per_s, p.skipped};
      progress(user, &now);
    };
  }
  if (o.stop) host.stop = [stop = o.stop, user = o.user] { return stop(user) != 0; };
  return host;
}

Tensors tensors_of(const onnx_amp_batch* batch) {
  require_pointer(batch, "batch");
  if (batch->count > 0) require_pointer(batch->tensors, "tensors");
  Tensors out;
  for (size_t i = 0; i < batch->count; ++i) {
    const onnx_amp_tensor& t = batch->tensors[i];
    require_pointer(t.name, "name");
    if (!out.emplace(t.name, tensor_of(t)).second)
      fail(Exit::usage, "E_USAGE", cat("the batch has two tensors '", printable(t.name), "'"), "give one");
  }
  return out;
}

void require_elements(const char* name, const HostTensor& parameter, size_t elements) {
  if (static_cast<size_t>(parameter.numel()) != elements)
    fail(Exit::usage, "E_PARAMETER",
         cat("parameter '", printable(name), "' has ", parameter.numel(), " elements, the array ", elements),
         "onnx_amp_parameter_info() says how many");
}

onnx_amp_dtype dtype_of(DType type) {
  const auto row = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& r) { return r.second == type; });
  return row->first;
}

}  // namespace amp::capi
