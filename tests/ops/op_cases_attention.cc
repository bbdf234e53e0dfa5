// Cases of fused attention: both layouts, the packed form, both kinds of mask with every broadcast, empty rows,
// concatenated sequences. Rows and keys are not multiples of any tile, and fill several blocks.
#include <cmath>
#include <limits>

#include "tests/ops/op_cases.h"

namespace amp::test {

namespace {

struct Shape {
  int64_t batch, heads, queries, keys, width, value_width;
};

std::vector<Operand> operands(const Shape& s, bool heads_first) {
  const auto dims = [&](int64_t tokens, int64_t width) {
    return heads_first ? Dims{s.batch, s.heads, tokens, width} : Dims{s.batch, tokens, s.heads, width};
  };
  return {{dims(s.queries, s.width)}, {dims(s.keys, s.width)}, {dims(s.keys, s.value_width)}};
}

double scale(const Shape& s) { return 0.8 / std::sqrt(static_cast<double>(s.width)); }

OpCase attention(const Shape& s, bool heads_first = false) {
  return {operands(s, heads_first), {{"scale", scale(s)}, {"heads_first", int64_t{heads_first}}}};
}
// Returns attention with a mask that is added to the scores. Some of its rows mask most keys.
OpCase added(const Shape& s, const Dims& mask, bool heads_first = false) {
  OpCase c = attention(s, heads_first);
  c.in.push_back({mask,
                  [=](int64_t n, Rng& rng) {
                    std::vector<double> v = uniform(-1, 1)(n, rng);
                    for (size_t i = 0; i < v.size() && mask[3] > 1; i += 3) v[i] = -10000;
                    return v;
                  },
                  Role::held});
  return c;
}
OpCase hidden(const Shape& s, const Dims& mask, double fill, bool zero) {
  OpCase c = attention(s);
  c.in.push_back({mask,
                  [=](int64_t n, Rng& rng) {
                    std::vector<double> v = coin()(n, rng);
                    const auto keys = static_cast<size_t>(mask[3]);
                    // A row whose scores are all -inf gives NaN, or zeros if `zero` is set. In the latter case the
                    // first row is such a row.
                    for (size_t i = 0; i < v.size(); ++i) v[i] = i < keys && zero ? 0 : i % keys == 0 ? 1 : v[i];
                    return v;
                  },
                  Role::boolean});
  c.attrs.set("fill", fill);
  c.attrs.set("empty_rows_zero", int64_t{zero});
  return c;
}
// Returns attention whose mask permits query i only the keys i - `behind` to i + `ahead`. Causal
// and local attention have such masks. They hide whole blocks of keys.
OpCase banded(const Shape& s, int64_t behind, int64_t ahead, double fill, bool boolean) {
  OpCase c = attention(s);
  c.in.push_back({{1, 1, s.queries, s.keys},
                  [=](int64_t n, Rng&) {
                    std::vector<double> v(static_cast<size_t>(n));
                    for (int64_t e = 0; e < n; ++e) {
                      const int64_t i = e / s.keys, j = e % s.keys;
                      const bool seen = j >= i - behind && j <= i + ahead;
                      v[static_cast<size_t>(e)] = boolean ? seen : seen ? 0 : fill;
                    }
                    return v;
                  },
                  boolean ? Role::boolean : Role::held});
  if (boolean) c.attrs.set("fill", fill);
  return c;
}
OpCase packed(const Shape& s) {
  return {{{{s.batch, s.queries, 3, s.heads, s.width}}}, {{"scale", scale(s)}, {"packed", int64_t{1}}}};
}
// Returns attention over concatenated sequences of these lengths. The remaining tokens belong to no sequence.
OpCase sequences(int64_t tokens, const std::vector<double>& lengths, bool as_packed) {
  const Shape s{1, 2, tokens, tokens, 4, 4};
  OpCase c = as_packed ? packed(s) : attention(s);
  std::vector<double> offsets{0};
  int64_t longest = 0;
  for (const double n : lengths) {
    offsets.push_back(offsets.back() + n);
    longest = std::max(longest, static_cast<int64_t>(n));
  }
  while (c.in.size() < 4) c.in.push_back({{}, uniform(0, 1), Role::absent});
  c.in.push_back({{static_cast<int64_t>(offsets.size())}, [offsets](int64_t, Rng&) { return offsets; }, Role::integer});
  c.attrs.set("max_len", longest + 1);
  return c;
}

OpCase fixed(OpCase c) {  // the case is run, but not differentiated
  c.finite_differences = false;
  for (Operand& o : c.in) o.role = o.role == Role::value ? Role::held : o.role;
  return c;
}

// Returns the case of the gradient. Its operands are those of attention, and random results, upstream
// gradients and statistics.
OpCase backward(const OpCase& forward) {
  OpCase c = fixed(forward);
  while (c.in.size() < 5) c.in.push_back({{}, uniform(0, 1), Role::absent});
  const Dims q = c.in[0].dims;
  Dims y = q, lse{q[0], q[2], q[1]};
  if (q.size() == 5) {
    y = {q[0], q[1], q[3], q[4]};
    lse = {q[0], q[3], q[1]};
  } else {
    y[3] = c.in[2].dims[3];
    if (c.attrs.i("heads_first", 0)) lse = {q[0], q[1], q[2]};
  }
  c.in.push_back({y, uniform(-1, 1), Role::held});
  c.in.push_back({lse, uniform(3, 5), Role::stat});
  c.in.push_back({y, uniform(-1, 1), Role::held});
  c.in.push_back({lse, uniform(-0.5, 0.5), Role::stat});
  return c;
}

}  // namespace

void add_attention_cases(OpSpecs& specs) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Shape small{2, 2, 3, 3, 4, 4}, cross{1, 2, 3, 5, 4, 3}, one{1, 1, 1, 1, 1, 1};
  std::vector<OpCase> c{attention(small),
                        attention(small, true),
                        attention(cross),
                        attention(cross, true),
                        attention(one),
                        packed(small),
                        packed(one),
                        packed({1, 3, 5, 5, 2, 2}),
                        added(small, {2, 1, 1, 3}),
                        added(small, {1, 1, 3, 3}),
                        added(small, {2, 2, 3, 3}, true),
                        added(cross, {1, 2, 1, 5}),
                        added(cross, {1, 1, 3, 1}),
                        added(small, {1, 1, 1, 1}),
                        hidden(small, {2, 1, 1, 3}, -kInf, false),
                        hidden(small, {2, 1, 3, 3}, -10000, false),
                        hidden(small, {1, 1, 3, 3}, -kInf, true),
                        hidden(cross, {1, 2, 3, 5}, -2, false),
                        sequences(7, {3, 4}, false),
                        sequences(9, {2, 0, 4, 1}, true),
                        sequences(6, {1, 1, 3}, false),
                        attention({0, 2, 3, 3, 4, 4}),
                        attention({2, 2, 0, 3, 4, 4}),
                        attention({3, 1, 2, 7, 3, 2}),
                        attention({2, 3, 4, 2, 1, 5}, true)};
  std::vector<OpCase> large{attention({2, 3, 77, 77, 64, 64}),
                            attention({1, 2, 130, 70, 32, 16}, true),
                            added({1, 2, 65, 140, 24, 40}, {1, 1, 65, 140}),
                            hidden({2, 1, 40, 40, 16, 16}, {2, 1, 1, 40}, -kInf, false),
                            sequences(150, {70, 3, 64}, true),
                            packed({2, 2, 100, 100, 20, 20}),
                            banded({2, 2, 150, 150, 8, 8}, 150, 0, -kInf, true),
                            banded({1, 2, 150, 150, 7, 8}, 150, 0, -3e38, true),
                            banded({1, 1, 130, 210, 16, 16}, 300, 80, -3e38, false),
                            banded({1, 2, 140, 140, 8, 6}, 20, 3, -kInf, false),
                            banded({1, 1, 190, 60, 4, 4}, 20, 0, -1e35, true),  // the rows after row 80 have no key
                            banded({1, 1, 140, 140, 8, 8}, 140, 0, -10000, false)};
  const Shape blocks{1, 1, 70, 4100, 3, 2};  // two blocks of rows on the CPU
  large.push_back(attention(blocks));
  OpSpec &forward = specs["FusedAttention"], &grad = specs["FusedAttentionGrad"];
  for (const OpCase& x : large) c.push_back(fixed(x));
  for (const OpCase& x : c) grad.cases.push_back(backward(x));
  forward.cases = std::move(c);
  forward.fp32_tolerance = grad.fp32_tolerance = 1e-5;  // tolerance for sums of up to 4100 products
  forward.fp32_floor = grad.fp32_floor = 0.05;          // a query with a single key has a zero gradient
  forward.inner_steps = grad.inner_steps = 4;
  // The bits of dropout are numbered by a token's position in the padded graph. The number of elements per token is not
  // a multiple of a Philox block.
  const auto places = [](int64_t n) {
    return Operand{{n},
                   [](int64_t k, Rng&) {
                     std::vector<double> v;
                     for (int64_t i = 0; i < k; ++i) v.push_back(static_cast<double>(i + i / 3));
                     return v;
                   },
                   Role::integer};
  };
  const auto dropped = [&](Dims x, int64_t n, double ratio) {
    return OpCase{{{x}, places(n)}, {{"ratio", ratio}, {"site", int64_t{4}}, {"length", int64_t{4}}}};
  };
  OpSpec& tokens = specs["TokenDropout"];
  for (const double ratio : {0.25, 0.5, 0.75}) {
    for (const Dims& d :
         {Dims{5, 4}, Dims{5}, Dims{5, 3}, Dims{1, 5, 2, 3}, Dims{1, 5, 7}, Dims{5, 1, 1, 1, 2}, Dims{5, 0}})
      tokens.cases.push_back(dropped(d, 5, ratio));
  }
  for (const OpCase& x : {dropped({300, 130}, 300, 0.1), dropped({700, 33}, 700, 0.3)})
    tokens.cases.push_back(fixed(x));
}

}  // namespace amp::test
