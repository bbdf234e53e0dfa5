// Operators that move elements in a fixed pattern: DepthToSpace, SpaceToDepth (ONNX 1+), Trilu (14), ReverseSequence
// (10), EyeLike (9); Compress (9) and NonZero (9) only of constants. They are composed of core operators, which provide
// the gradients.
#include <algorithm>

#include "base/error.h"
#include "graph/lower.h"
#include "graph/op.h"

namespace amp {
namespace {

Dims image_dims(const Lowering& l) {
  if (l.rank(0) != 4)
    fail(Exit::model, "E_SHAPE", cat(l.node.op, " of ", to_string(l.dims(0)), ": needs (N, C, H, W)"));
  return l.dims(0);
}

int64_t block_size(const Lowering& l) {
  const int64_t s = l.attrs.i("blocksize", 1);
  if (s < 1 || s > 1 << 15) fail(Exit::model, "E_ATTR", cat(l.node.op, ": blocksize ", s));
  return s;
}

void lower_depth_to_space(Lowering& l) {
  Builder& b = l.b;
  const Dims d = image_dims(l);
  const int64_t s = block_size(l), c = d[1] / (s * s);
  const std::string mode = l.attrs.s("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") l.unsupported("mode '" + mode + "'");
  const ValueId x = mode == "CRD" ? b.transpose(b.reshape(l.in(0), {d[0], c, s, s, d[2], d[3]}), {0, 1, 4, 2, 5, 3})
                                  : b.transpose(b.reshape(l.in(0), {d[0], s, s, c, d[2], d[3]}), {0, 3, 4, 1, 5, 2});
  l.out(0, b.reshape(x, {d[0], c, d[2] * s, d[3] * s}));
}

void lower_space_to_depth(Lowering& l) {
  Builder& b = l.b;
  const Dims d = image_dims(l);
  const int64_t s = block_size(l), h = d[2] / s, w = d[3] / s;
  const bool crd = l.attrs.s("mode", "DCR") == "CRD";
  const ValueId split = b.reshape(l.in(0), {d[0], d[1], h, s, w, s});
  const ValueId x =
      b.transpose(split, crd ? std::vector<int64_t>{0, 1, 3, 5, 2, 4} : std::vector<int64_t>{0, 3, 5, 1, 2, 4});
  l.out(0, b.reshape(x, {d[0], d[1] * s * s, h, w}));
}

void lower_trilu(Lowering& l) {
  Builder& b = l.b;
  const Dims d = l.dims(0);
  const int64_t rows = d.at(d.size() - 2), cols = d.back(), k = l.has(1) ? l.ints(1).at(0) : 0;
  const bool upper = l.attrs.i("upper", 1) != 0;
  HostTensor keep = HostTensor::empty(DType::boolean, {rows, cols});
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) keep.as_mutable<bool>()[i * cols + j] = upper ? j - i >= k : j - i <= k;
  }
  l.out(0, b.op("Where", {b.constant(keep), l.in(0), b.scalar(0, b.dtype(l.in(0)))}));
}

void lower_eye_like(Lowering& l) {
  const Dims d = l.dims(0);
  if (d.size() != 2) fail(Exit::model, "E_SHAPE", cat("EyeLike of ", to_string(d), ": needs a matrix"));
  DType t = l.b.dtype(l.in(0));
  if (l.attrs.has("dtype")) {
    const int64_t code = l.attrs.i("dtype", 1);
    if (code == 1 || code == 10 || code == 11 || code == 16)
      t = l.float_type();
    else if (code == 6)
      t = DType::i32;
    else if (code == 7)
      t = DType::i64;
    else if (code == 9)
      t = DType::boolean;
    else
      l.unsupported(cat("element type ", code, " of TensorProto"));
  }
  const int64_t k = l.attrs.i("k", 0);
  HostTensor eye = HostTensor::zeros(DType::i64, d);
  for (int64_t i = std::max<int64_t>(0, -k); i < d[0] && i + k < d[1]; ++i)
    eye.as_mutable<int64_t>()[i * d[1] + i + k] = 1;
  l.out(0, l.b.constant(eye.cast(t)));
}

// Lowers ReverseSequence: reverses each sequence up to its own length by a gather, whose indices may depend on data.
void lower_reverse_sequence(Lowering& l) {
  Builder& b = l.b;
  const Dims d = l.dims(0);
  const int64_t time = l.attrs.i("time_axis", 0), batch = l.attrs.i("batch_axis", 1);
  if (d.size() < 2 || time + batch != 1 || time < 0 || batch < 0) l.unsupported("axes other than 0 and 1");
  const int64_t n = d[static_cast<size_t>(time)], rows = d[static_cast<size_t>(batch)];
  ValueId x = l.in(0);
  std::vector<int64_t> swap(d.size());
  for (size_t i = 0; i < d.size(); ++i) swap[i] = static_cast<int64_t>(i);
  if (time == 0) {
    std::swap(swap[0], swap[1]);
    x = b.transpose(x, swap);
  }
  std::vector<int64_t> t(static_cast<size_t>(n)), base(static_cast<size_t>(rows));
  for (int64_t i = 0; i < n; ++i) t[static_cast<size_t>(i)] = i;
  for (int64_t i = 0; i < rows; ++i) base[static_cast<size_t>(i)] = i * n;
  const ValueId at = b.constant(HostTensor::of<int64_t>({1, n}, t));
  const ValueId len = b.reshape(b.cast(l.in(1), DType::i64), {rows, 1});
  const ValueId mirrored = b.op("Sub", {b.op("Sub", {len, b.scalar(1, DType::i64)}), at});
  const ValueId source = b.op("Where", {b.op("Less", {at, len}), mirrored, at});
  const ValueId row =
      b.reshape(b.op("Add", {source, b.constant(HostTensor::of<int64_t>({rows, 1}, base))}), {rows * n});
  const Dims dims = b.dims(x);
  const int64_t inner = rows * n != 0 ? numel(d) / (rows * n) : 1;
  const ValueId y = b.op("GatherRows", {b.reshape(x, {rows * n, inner}), row},
                         {{"outer", int64_t{1}}, {"n", rows * n}, {"inner", inner}, {"dims", Dims{rows * n, inner}}});
  x = b.reshape(y, dims);
  l.out(0, time == 0 ? b.transpose(x, swap) : x);
}

// Lowers Compress: keeps the rows whose condition is true. The condition must be a constant, because it determines the
// number of rows.
void lower_compress(Lowering& l) {
  Builder& b = l.b;
  ValueId x = l.in(0);
  int64_t axis = 0;
  if (l.attrs.has("axis"))
    axis = normalize_axis(l.attrs.i("axis", 0), l.rank(0));
  else
    x = b.reshape(x, {numel(l.dims(0))});
  const std::vector<int64_t> keep = l.ints(1);
  std::vector<int64_t> rows;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (keep[i]) rows.push_back(static_cast<int64_t>(i));
  }
  Dims d = b.dims(x);
  const int64_t n = d[static_cast<size_t>(axis)];
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < d.size(); ++i)
    (static_cast<int64_t>(i) < axis ? outer : inner) *= static_cast<int64_t>(i) == axis ? 1 : d[i];
  const int64_t k = d[static_cast<size_t>(axis)] = static_cast<int64_t>(rows.size());
  l.out(0, b.op("GatherRows", {x, b.constant(HostTensor::of<int64_t>({k}, rows))},
                {{"outer", outer}, {"n", n}, {"inner", inner}, {"dims", d}}));
}

void lower_non_zero(Lowering& l) {
  if (!l.b.constant_of(l.in(0))) {
    fail(Exit::unsupported, "E_DYNAMIC", "NonZero: how many elements it finds depends on the data",
         "re-export the model without boolean indexing; a mixture of experts of transformers: load it with "
         "experts_implementation=\"batched_mm\"");
  }
  const std::vector<double> v = l.constant(0).to_doubles();
  const Dims d = l.dims(0), strides = row_major_strides(d);
  std::vector<int64_t> hits;
  for (size_t i = 0; i < v.size(); ++i) {
    if (v[i] != 0) hits.push_back(static_cast<int64_t>(i));
  }
  const size_t rank = d.size(), k = hits.size();
  std::vector<int64_t> out(rank * k);
  for (size_t a = 0; a < rank; ++a) {
    for (size_t i = 0; i < k; ++i) out[a * k + i] = hits[i] / strides[a] % d[a];
  }
  l.out(0, l.b.constant(HostTensor::of<int64_t>({static_cast<int64_t>(rank), static_cast<int64_t>(k)}, out)));
}

const RegisterOnnx rearrange_onnx[] = {RegisterOnnx{{"DepthToSpace", lower_depth_to_space, 1, {}}},
                                       RegisterOnnx{{"SpaceToDepth", lower_space_to_depth, 1, {}}},
                                       RegisterOnnx{{"Trilu", lower_trilu, 14, {}}},
                                       RegisterOnnx{{"EyeLike", lower_eye_like, 9, {}}},
                                       RegisterOnnx{{"ReverseSequence", lower_reverse_sequence, 10, {}}},
                                       RegisterOnnx{{"Compress", lower_compress, 9, {}}},
                                       RegisterOnnx{{"NonZero", lower_non_zero, 9, {}}}};

}  // namespace
}  // namespace amp
