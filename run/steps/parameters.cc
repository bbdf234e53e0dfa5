#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "run/steps/step_session.h"

namespace amp {

const Chunk& StepSession::chunk(const std::string& name) const {
  require_prepared();
  const std::vector<Chunk>& chunks = session_->layout().chunks();
  const auto c = std::find_if(chunks.begin(), chunks.end(), [&](const Chunk& x) { return x.name == name; });
  if (c != chunks.end()) return *c;
  std::vector<std::string> names;
  for (const Chunk& x : chunks) names.push_back(x.name);
  const std::string near = nearest(name, names);
  fail(Exit::usage, "E_PARAMETER", cat("the model has no parameter '", printable(name), "'"),
       near.empty() ? "" : cat("is '", printable(near), "' meant?"));
}

std::vector<ParameterInfo> StepSession::parameters() const {
  require_prepared();
  const FlatLayout moving = session_->moving();
  std::vector<ParameterInfo> out;
  for (size_t i = 0; i < moving.chunks().size(); ++i) {
    const Chunk& c = session_->layout().chunks()[i];
    out.push_back({c.name, c.dims, !c.frozen, c.frozen && !moving.chunks()[i].frozen});
  }
  return out;
}

HostTensor StepSession::parameter(const std::string& name) const {
  const Chunk& c = chunk(name);
  const HostTensor params = session_->host_params();
  HostTensor out = HostTensor::empty(DType::f32, c.dims);
  std::copy_n(params.as<float>() + c.offset, c.numel, out.as_mutable<float>());
  return out;
}

void StepSession::set_parameter(const std::string& name, const HostTensor& value) {
  const Chunk& c = chunk(name);
  if (value.dims() != c.dims || !is_float(value.dtype()))
    fail(Exit::usage, "E_PARAMETER",
         cat("parameter '", printable(name), "' is float32 ", to_string(c.dims), ", the given value is ",
             name_of(value.dtype()), " ", to_string(value.dims())),
         "give a floating-point tensor of the parameter's shape");
  const HostTensor wide = value.cast(DType::f32);
  HostTensor params = session_->host_params();
  std::copy_n(wide.as<float>(), c.numel, params.as_mutable<float>() + c.offset);
  session_->set_params(params);
}

}  // namespace amp
