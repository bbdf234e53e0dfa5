#include "ops/composed/attention_decomposition.h"

#include <limits>

#include "ops/term.h"

namespace amp {

namespace {

// Converts q, k, v, y and their gradients to (B, N, S, H) from any layout, and back.
class Layout {
 public:
  Layout(Builder& b, const Attrs& a)
      : b_(b), packed_(a.i("packed", 0) != 0), heads_first_(a.i("heads_first", 0) != 0) {}

  Term in(const std::vector<ValueId>& all, int64_t i) const {
    if (!packed_) return heads_first(all[static_cast<size_t>(i)]);
    const Dims d = b_.dims(all[0]);  // (B, S, 3, N, H)
    return heads_first(b_.reshape(slice(b_, all[0], 2, i, 1), {d[0], d[1], d[3], d[4]}));
  }
  Term heads_first(ValueId v) const { return {b_, heads_first_ ? v : b_.transpose(v, {0, 2, 1, 3})}; }
  std::vector<ValueId> out(const std::vector<Term>& grads) const {
    std::vector<ValueId> stored;
    for (const Term& t : grads) stored.push_back(heads_first(t));  // heads_first() is its own inverse
    if (!packed_) return stored;
    const Dims d = b_.dims(stored[0]);
    for (ValueId& v : stored) v = b_.reshape(v, {d[0], d[1], 1, d[2], d[3]});
    return {concat(b_, stored, 2)};
  }

 private:
  Builder& b_;
  bool packed_, heads_first_;
};

Term product(Term x, bool tx, Term y, bool ty, double alpha = 1) {
  return {*x.b, x.b->op("MatMul", {x, y}, {{"transA", int64_t{tx}}, {"transB", int64_t{ty}}, {"alpha", alpha}})};
}

}  // namespace

std::vector<ValueId> decompose_attention_grad(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  const ValueId mask = in[3], offsets = in[4];
  if (offsets) return {};
  const Layout layout(b, a);
  const Term q = layout.in(in, 0), k = layout.in(in, 1), v = layout.in(in, 2), dy = layout.heads_first(in[7]);
  const double scale = a.f("scale", 1), fill = a.f("fill", -std::numeric_limits<double>::infinity());
  const bool hides = mask && b.dtype(mask) == DType::boolean;
  const auto dropout = [&](Term t) {
    if (a.f("ratio", 0) <= 0) return t;
    return t.to("Dropout", {{"ratio", a.f("ratio", 0)}, {"site", a.i("site", 0)}, {"rows", a.i("rows", 1)}});
  };

  Term z = product(q, false, k, true, scale);  // all values from here on are (B, N, Sq, Sk)
  if (hides)
    z = where({b, mask}, z, fill);
  else if (mask)
    z = z + Term(b, b.cast(mask, b.dtype(z)));
  Term p = z.to("Softmax", {{"empty_rows_zero", a.i("empty_rows_zero", 0)}});
  const Term dr = product(dy, false, v, true);
  p = where(both(p.to("IsNaN"), dr == 0), p.like(0), p);  // a row of NaN has no gradient where dy is 0
  Term ds = binary("SoftmaxGrad", p, dropout(dr));
  if (hides) ds = where({b, mask}, ds, 0);
  return layout.out(
      {product(ds, false, k, false, scale), product(ds, true, q, false, scale), product(dropout(p), true, dy, false)});
}

}  // namespace amp
