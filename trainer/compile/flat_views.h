// The parameters that train, by name, in a span laid out like a FlatLayout.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/update.h"
#include "base/host_tensor.h"
#include "trainer/compile/flat_layout.h"

namespace amp {

std::vector<UpdateSpan> update_spans(const FlatLayout& layout);  // a chunk that trains each; slot: its index

// The first chunk that trains and holds a non-finite element, by name; empty when all are finite. For messages, and to
// keep broken weights out of checkpoints.
template <class T>
std::string first_nonfinite(const FlatLayout& layout, const T* span);

// Adds the chunks of a span that train to a checkpoint as "PREFIX/NAME": views.
template <class T>
void add_views(const FlatLayout& layout, const std::string& prefix, const T* span,
               std::map<std::string, HostTensor>& out);

// The same; the views keep the memory of the fp32 span alive.
void add_views(const FlatLayout& layout, const std::string& prefix, const HostTensor& span,
               std::map<std::string, HostTensor>& out);

// Copies "PREFIX/NAME" of every chunk that trains into the span; missing or different: exit 6 E_CKPT_MISMATCH.
template <class T>
void copy_views(const FlatLayout& layout, const std::string& prefix, const std::map<std::string, HostTensor>& from,
                T* span);

// The tensor of that name, which must be of the same type and shape; missing or different: the same.
const HostTensor& whole_of(const std::string& name, const std::map<std::string, HostTensor>& from, const Tensor& like);

}  // namespace amp
