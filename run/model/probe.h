// Shape inference of a model whose input sizes are open, with sizes that such models usually accept.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "graph/bind.h"

namespace amp {

// Returns input shapes for shape inference: the declared sizes where they are known. Open dimensions get the size 2 if
// they count rows of a batch, `length` if they count tokens or pixels, and otherwise 1.
BindOptions probe_options(const SourceGraph& g, const std::vector<int>& outputs, int64_t length);
// Values of `length` that probe_some_size() tries in this order: few tokens, then sides of images.
inline constexpr std::array<int64_t, 5> kProbedSizes = {3, 16, 64, 224, 640};
// Sets the dims of these outputs, except the first, that differ for another length than `probed` to -1: they depend on
// the number of tokens or the size of the image. shapes: by source value, for a batch of the length `probed`.
void mark_open_dims(const SourceGraph& g, const std::vector<int>& outputs, int64_t probed, std::vector<Dims>& shapes);
// Returns the shapes of all values for the first of kProbedSizes that works, with those of the outputs marked by
// mark_open_dims(). If none works, throws the error of the first size.
std::vector<Dims> probe_some_size(const SourceGraph& g, const std::vector<int>& outputs);

}  // namespace amp
