#include "data/input_range.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace amp {

InputRange range_of(const HostTensor& tensor) {
  InputRange r;
  r.whole = !is_float(tensor.dtype());
  bool any = false;
  // Elements that are converted at once. The f64 values of all images could exceed the memory.
  constexpr int64_t kPiece = 1 << 16;
  for (int64_t at = 0; at < tensor.numel(); at += kPiece) {
    const auto* from = static_cast<const char*>(tensor.data()) + at * size_of(tensor.dtype());
    const HostTensor piece(tensor.dtype(), {std::min(kPiece, tensor.numel() - at)}, nullptr, from);
    const HostTensor wide = piece.cast(DType::f64);
    for (int64_t i = 0; i < wide.numel(); ++i) {
      const double x = wide.as<double>()[i];
      if (!std::isfinite(x)) continue;
      r.low = any ? std::min(r.low, x) : x;
      r.high = any ? std::max(r.high, x) : x;
      any = true;
    }
  }
  return r;
}

namespace {
double reach(const InputRange& r) { return std::max(std::abs(r.low), std::abs(r.high)); }
std::string text(const InputRange& r) {
  return cat(r.whole ? "whole numbers from " : "floats from ", r.low, " to ", r.high);
}
}  // namespace

std::vector<std::string> compare_ranges(const InputRanges& trained, const InputRanges& given, const std::string& file) {
  std::vector<std::string> warnings;
  for (const auto& [name, is] : given) {
    const auto it = trained.find(name);
    if (it == trained.end() || reach(is) == 0 || reach(it->second) == 0) continue;
    const InputRange& was = it->second;
    const double ratio = reach(is) / reach(was);
    const std::string fact =
        cat("'", file, "': input '", printable(name), "' holds ", text(is), ", the model was trained on ", text(was));
    if (is.whole != was.whole && (ratio > 8 || ratio < 1.0 / 8))
      fail(Exit::data, "E_DATA_RANGE", fact, "scale the values as they were for training (pixels: divide by 255?)");
    if (ratio > 10 || ratio < 1.0 / 50) warnings.push_back("W_DATA_RANGE: " + fact);
  }
  return warnings;
}

}  // namespace amp
