// A small BERT and the 16-bit copies of its weights: what tests of merged projections (ops/passes/qkv.h) share.
#pragma once

#include <cmath>

#include "backend/device.h"
#include "backend/param_cache.h"
#include "bench/roofline/bert.h"

namespace amp::test {

// (rows, columns) of what is stored with `pitch` elements from row to row.
inline HostTensor gathered(Device& d, const ParamCache::Copy& c) {
  const Tensor& t = c.tensor;
  HostTensor out = HostTensor::empty(t.dtype, t.dims);
  const int64_t width = size_of(t.dtype);
  for (int64_t at = 0; at < t.numel(); at += c.row)
    d.download(static_cast<char*>(out.mutable_data()) + at * width,
               static_cast<const char*>(t.data) + at / c.row * c.pitch * width, c.row * width);
  return out;
}

inline SourceGraph small_bert() {
  BertConfig c;
  c.layers = 2;
  c.hidden = 24;
  c.heads = 3;
  c.intermediate = 32;
  c.vocabulary = 11;
  c.positions = 9;
  SourceGraph g = bert_graph(c);
  double at = 0;
  for (SourceValue& v : g.values) {
    if (v.kind != SourceKind::parameter) continue;
    v.data = HostTensor::empty(DType::f32, v.data.dims());
    for (int64_t i = 0; i < v.data.numel(); ++i)
      v.data.as_mutable<float>()[i] = static_cast<float>(std::sin(at += 0.7));
  }
  return g;
}

}  // namespace amp::test
