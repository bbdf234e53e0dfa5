// Named views of the trainable parameters in a span with a FlatLayout.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/update.h"
#include "base/host_tensor.h"
#include "trainer/compile/flat_layout.h"

namespace amp {

// Returns one UpdateSpan per trainable chunk. UpdateSpan::slot is the chunk's index.
std::vector<UpdateSpan> update_spans(const FlatLayout& layout);

// Returns the name of the first trainable chunk with a non-finite element; empty when all are finite. Used for messages
// and to refuse checkpoints of non-finite weights.
template <class T>
std::string first_nonfinite(const FlatLayout& layout, const T* span);

// Adds views of the span's trainable chunks to a checkpoint's tensors, as "PREFIX/NAME".
template <class T>
void add_views(const FlatLayout& layout, const std::string& prefix, const T* span,
               std::map<std::string, HostTensor>& out);

// As the other add_views(), for a span of fp32; the views share ownership of its memory.
void add_views(const FlatLayout& layout, const std::string& prefix, const HostTensor& span,
               std::map<std::string, HostTensor>& out);

// Copies "PREFIX/NAME" of every trainable chunk into the span. Throws E_CKPT_MISMATCH (Exit::checkpoint) if one is
// missing or has another type or shape.
template <class T>
void copy_views(const FlatLayout& layout, const std::string& prefix, const std::map<std::string, HostTensor>& from,
                T* span);

// Returns the tensor `name` of `from`. Throws E_CKPT_MISMATCH (Exit::checkpoint) if it is missing or has another
// type or shape than `like`.
const HostTensor& whole_of(const std::string& name, const std::map<std::string, HostTensor>& from, const Tensor& like);

}  // namespace amp
