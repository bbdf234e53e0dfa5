#include "trainer/losses/answer_rows.h"

#include "base/text.h"
#include "ops/compose.h"
#include "trainer/losses/class_rows.h"

namespace amp::losses {

AnswerRows answer_rows(Builder& b, const LossSpec& spec, ValueId logits, ValueId label, const std::string& rows) {
  const Dims d = b.dims(logits);
  if (d.size() != 3 || b.dims(label) != Dims{d[0], d[1]} || d[0] % 2 != 0 || d[1] < 2)
    label_shape(b, logits, label, cat("token ids [2 B, S] for logits [2 B, S, V], ", rows));
  const int64_t n = d[1] - 1;
  const Picked p =
      pick(b, spec, class_rows(b, spec, slice(b, logits, 1, 0, n), b.cast(slice(b, label, 1, 1, n), DType::i64)));
  const DType t = b.dtype(logits);
  const ValueId zero = b.scalar(0, t);
  return {b.reshape(b.op("Where", {p.ignored, zero, p.own}), {d[0], n}),
          b.reshape(b.op("Where", {p.ignored, zero, b.scalar(1, t)}), {d[0], n})};
}

ValueId sums_of(Builder& b, const AnswerRows& r) { return b.reduce_sum(r.own, {1}, false); }

ValueId every_second(Builder& b, ValueId x, int64_t k) {
  const int64_t pairs = b.dims(x)[0] / 2;
  return b.reshape(slice(b, b.reshape(x, {pairs, 2}), 1, k, 1), {pairs});
}

}  // namespace amp::losses
