#include "trainer/losses/embeddings.h"

#include "base/error.h"
#include "ops/compose.h"

namespace amp::losses {

std::vector<ValueId> sides(Builder& b, const LossSpec& spec, const LossInputs& in, size_t n) {
  std::vector<ValueId> out;
  if (in.outputs.size() > 1) {
    for (const ValueId v : in.outputs) {
      if (b.rank(v) != 2 || b.dims(v) != b.dims(in.outputs[0])) {
        fail(Exit::data, "E_DATA_SHAPE",
             cat(spec.kind, " needs embeddings [n, h] of one shape, got ", to_string(b.dims(in.outputs[0])), " and ",
                 to_string(b.dims(v))),
             "name outputs of one shape with `output` A,B");
      }
      out.push_back(v);
    }
    return out;
  }
  const Dims d = b.dims(in.outputs[0]);
  const int64_t k = spec.sides > 0 ? spec.sides : static_cast<int64_t>(n);
  if (d.size() != 2 || d[0] % k)
    fail(Exit::data, "E_DATA_SHAPE", cat(spec.kind, " needs [", k, "n, h] embeddings, got ", to_string(d)),
         "the batch size must be a multiple, and `shuffle` false keeps rows together");
  const ValueId groups = b.reshape(in.outputs[0], {d[0] / k, k, d[1]});
  for (int64_t i = 0; i < k; ++i) out.push_back(b.reshape(slice(b, groups, 1, i, 1), {d[0] / k, d[1]}));
  return out;
}

ValueId norm(Builder& b, ValueId x) {
  return b.op("Sqrt", {b.op("Clip", {b.reduce_sum(square(b, x), {1}, true)}, {{"min", 1e-16}})});
}

}  // namespace amp::losses
