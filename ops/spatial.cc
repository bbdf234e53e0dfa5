// Reads and checks the spatial attributes of ONNX (ops/spatial.h), resolves auto_pad, and computes output extents.

#include "ops/spatial.h"

#include "base/error.h"

namespace amp {

int64_t Spatial::out(size_t i, int64_t n, bool ceil) const {
  const int64_t room = n + begin[i] + end[i] - reach(i) + (ceil ? strides[i] - 1 : 0);
  if (room < 0) {
    fail(Exit::data, "E_DATA_SIZE",
         cat("a window of ", reach(i), " does not fit into ", n, " + padding ", begin[i], " + ", end[i]),
         "the model needs larger images (longer sequences) than these data have");
  }
  int64_t o = room / strides[i] + 1;
  if (ceil && (o - 1) * strides[i] >= n + begin[i]) --o;
  return o;
}

Attrs Spatial::attrs() const {
  Dims pads = begin;
  pads.insert(pads.end(), end.begin(), end.end());
  return {{"kernel", kernel}, {"strides", strides}, {"dilations", dilations}, {"pads", pads}};
}

void Spatial::push_front_unit() {
  for (Dims* d : {&kernel, &strides, &dilations}) d->insert(d->begin(), 1);
  for (Dims* d : {&begin, &end}) d->insert(d->begin(), 0);
}

static constexpr int64_t kMost = 1'000'000;  // largest value of an attribute, so that products do not overflow

static Dims read(const Lowering& l, const char* name, size_t n, Dims fallback, int64_t least) {
  const Dims v = l.attrs.ints(name, std::move(fallback));
  if (v.size() != n) fail(Exit::model, "E_ATTR", cat(name, " ", to_string(v), " should have ", n, " numbers"));
  for (const int64_t x : v) {
    if (x < least || x > kMost)
      fail(Exit::model, "E_ATTR", cat(name, " ", to_string(v), " must be in ", least, "..", kMost));
  }
  return v;
}

Spatial read_spatial(const Lowering& l, const Dims& in, Dims kernel, AutoPad same) {
  const size_t r = in.size();
  if (r < 1 || r > 3) l.unsupported(cat(r, " spatial dimensions"));
  Spatial s;
  s.kernel = read(l, "kernel_shape", r, kernel, 1);
  if (!kernel.empty() && s.kernel != kernel) {
    fail(Exit::model, "E_ATTR",
         cat("kernel_shape ", to_string(s.kernel), ", but the weight's kernel is ", to_string(kernel)));
  }
  // A pool's window may have any size. A window much larger than the input indicates a broken file, and would take very
  // long to compute.
  if (kernel.empty() && numel(s.kernel) > std::max<int64_t>(1 << 16, 16 * numel(in)))
    fail(Exit::model, "E_ATTR", cat("a window of ", to_string(s.kernel), " over ", to_string(in)));
  s.strides = read(l, "strides", r, Dims(r, 1), 1);
  s.dilations = read(l, "dilations", r, Dims(r, 1), 1);
  const std::string mode = l.attrs.s("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER") {
    fail(Exit::model, "E_ATTR", cat("auto_pad '", mode, "' is unknown"));
  }
  const Dims pads = read(l, "pads", 2 * r, Dims(2 * r, 0), 0);
  s.begin = Dims(r, 0);
  s.end = Dims(r, 0);
  for (size_t i = 0; i < r; ++i) {
    if (mode == "NOTSET") {
      s.begin[i] = pads[i];
      s.end[i] = pads[r + i];
    } else if (mode != "VALID" && same != AutoPad::left) {
      const int64_t outputs = (in[i] + s.strides[i] - 1) / s.strides[i];
      const bool dilated = same == AutoPad::dilated;
      const int64_t window = dilated ? s.reach(i) : s.kernel[i];
      int64_t total = (outputs - 1) * s.strides[i] + window - in[i];
      if (dilated) total = std::max<int64_t>(0, total);
      s.begin[i] = (mode == "SAME_UPPER" ? total : total + 1) / 2;
      s.end[i] = total - s.begin[i];
    }
  }
  return s;
}

ValueId with_height(Builder& b, ValueId v) {
  const Dims& d = b.dims(v);
  return d.size() == 3 ? b.reshape(v, {d[0], d[1], 1, d[2]}) : v;
}

ValueId without_height(Builder& b, ValueId v, bool was_1d) {
  const Dims& d = b.dims(v);
  return was_1d ? b.reshape(v, {d[0], d[1], d[3]}) : v;
}

}  // namespace amp
