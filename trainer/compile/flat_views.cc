// Converts between the flat spans of a FlatLayout and named tensors (checkpoints) or UpdateSpans (optimizer).
// Explicitly instantiated for float and double.

#include "trainer/compile/flat_views.h"

#include <algorithm>

#include "backend/cpu/update/update_loops.h"
#include "base/error.h"
#include "base/text.h"

namespace amp {

namespace {
const HostTensor& find(const std::map<std::string, HostTensor>& from, const std::string& name, DType dtype,
                       const Dims& dims) {
  const auto it = from.find(name);
  if (it == from.end()) {
    fail(Exit::checkpoint, "E_CKPT_MISMATCH", cat("the checkpoint holds no tensor '", printable(name), "'"),
         "it was written for another model or optimizer: resume with the same ones, or start afresh");
  }
  const HostTensor& t = it->second;
  if (t.dtype() != dtype || t.dims() != dims) {
    fail(Exit::checkpoint, "E_CKPT_MISMATCH",
         cat("tensor '", printable(name), "' is ", name_of(t.dtype()), to_string(t.dims()), " in the checkpoint, ",
             name_of(dtype), to_string(dims), " in this run"),
         "resume with the model and settings that the checkpoint was written for, or start afresh");
  }
  return t;
}
}  // namespace

std::vector<UpdateSpan> update_spans(const FlatLayout& layout) {
  std::vector<UpdateSpan> out;
  for (size_t i = 0; i < layout.chunks().size(); ++i) {
    const Chunk& c = layout.chunks()[i];
    const int64_t kernel = c.dims.size() == 4 ? c.dims[2] * c.dims[3] : 1;
    const bool matrix = c.dims.size() > 1;
    const int64_t unit = matrix && c.dims[0] > 0 ? c.numel / c.dims[0] : c.numel;
    if (!c.frozen)
      out.push_back({c.offset, c.numel, c.weight_decay, c.lr_factor, static_cast<int>(i), kernel, unit, matrix, c.dims,
                     c.elementwise, c.clip_group, c.max_grad_norm, c.from_step});
  }
  return out;
}

template <class T>
std::string first_nonfinite(const FlatLayout& layout, const T* span) {
  for (const Chunk& c : layout.chunks()) {
    if (!c.frozen && kernel::inspect(span + c.offset, c.numel).found_inf) return c.name;
  }
  return {};
}

template <class T>
void add_views(const FlatLayout& layout, const std::string& prefix, const T* span,
               std::map<std::string, HostTensor>& out) {
  for (const Chunk& c : layout.chunks()) {
    if (c.frozen) continue;
    out[prefix + "/" + c.name] = HostTensor(DTypeOf<T>::value, c.dims, nullptr, span + c.offset);
  }
}

void add_views(const FlatLayout& layout, const std::string& prefix, const HostTensor& span,
               std::map<std::string, HostTensor>& out) {
  const auto owner = std::make_shared<const HostTensor>(span);
  std::map<std::string, HostTensor> views;
  add_views(layout, prefix, owner->as<float>(), views);
  for (const auto& [name, view] : views) out[name] = HostTensor(view.dtype(), view.dims(), owner, view.data());
}

template <class T>
void copy_views(const FlatLayout& layout, const std::string& prefix, const std::map<std::string, HostTensor>& from,
                T* span) {
  for (const Chunk& c : layout.chunks()) {
    if (c.frozen) continue;
    std::copy_n(find(from, prefix + "/" + c.name, DTypeOf<T>::value, c.dims).template as<T>(), c.numel,
                span + c.offset);
  }
}

const HostTensor& whole_of(const std::string& name, const std::map<std::string, HostTensor>& from, const Tensor& like) {
  return find(from, name, like.dtype, like.dims);
}

template std::string first_nonfinite(const FlatLayout&, const float*);
template std::string first_nonfinite(const FlatLayout&, const double*);
template void add_views(const FlatLayout&, const std::string&, const float*, std::map<std::string, HostTensor>&);
template void add_views(const FlatLayout&, const std::string&, const double*, std::map<std::string, HostTensor>&);
template void copy_views(const FlatLayout&, const std::string&, const std::map<std::string, HostTensor>&, float*);
template void copy_views(const FlatLayout&, const std::string&, const std::map<std::string, HostTensor>&, double*);

}  // namespace amp
