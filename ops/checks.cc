// Checks of core operators on the dims and attributes of their inputs (graph/signature.h). Kernels rely on these checks
// and repeat none. The checks find contradictions in hand-made or damaged files; each failure is E_SHAPE.
#include <algorithm>

#include "base/error.h"
#include "graph/signature.h"

namespace amp {
namespace {

[[noreturn]] void refuse(const std::string& fact) { fail(Exit::model, "E_SHAPE", fact); }
void need(bool ok, const char* what) {
  if (!ok) refuse(what);
}
void need_dims(const InferCtx& c, size_t i, const Dims& want, const char* what) {
  if (i < c.n_in() && c.inputs[i] && c.in(i).dims != want)
    refuse(cat(what, " is ", to_string(c.in(i).dims), ", not ", to_string(want)));
}

size_t axis_of(const InferCtx& c) {
  const int64_t axis = c.attrs.i("axis", 0), rank = static_cast<int64_t>(c.in(0).dims.size());
  if (axis < 0 || axis >= rank) refuse(cat("axis ", axis, " of a tensor of rank ", rank));
  return static_cast<size_t>(axis);
}
// Checks an AxisMap, in which output j is the weighted sum of the inputs index[begin[j]..begin[j + 1]).
void axis_map(const InferCtx& c) {
  const int64_t n = c.in(0).dims[axis_of(c)];
  const auto begin = c.attrs.ints("begin"), index = c.attrs.ints("index");
  need(!begin.empty() && std::is_sorted(begin.begin(), begin.end()) && begin.front() >= 0 &&
           begin.back() <= static_cast<int64_t>(index.size()) && c.attrs.floats("weight").size() == index.size(),
       "a map along an axis that is not whole");
  for (const int64_t i : index) {
    if (i < 0 || i >= n) refuse(cat("a map along an axis of ", n, " reads element ", i));
  }
}
void axis_alone(const InferCtx& c) { axis_of(c); }

// Checks that the region (starts, steps, dims `part`) is inside a tensor of dims `whole`.
void check_region(const InferCtx& c, const Dims& whole, const Dims& part) {
  const auto starts = c.attrs.ints("starts"), steps = c.attrs.ints("steps");
  need(starts.size() == whole.size() && steps.size() == whole.size() && part.size() == whole.size(),
       "a region of another rank than the tensor that it is taken from");
  for (size_t d = 0; d < whole.size(); ++d) {
    if (part[d] < 0 || whole[d] < 0) refuse(cat("a region of ", to_string(part), " in ", to_string(whole)));
    if (part[d] == 0) continue;
    int64_t last = 0;
    const bool overflows =
        __builtin_mul_overflow(part[d] - 1, steps[d], &last) || __builtin_add_overflow(last, starts[d], &last);
    if (overflows || starts[d] < 0 || starts[d] >= whole[d] || last < 0 || last >= whole[d]) {
      refuse(cat("axis ", d, ": ", part[d], " elements from ", starts[d], " by steps of ", steps[d],
                 " in an extent of ", whole[d]));
    }
  }
}
void slice(const InferCtx& c) { check_region(c, c.in(0).dims, c.attrs.ints("dims")); }
void slice_grad(const InferCtx& c) { check_region(c, c.attrs.ints("full"), c.in(0).dims); }

void split(const InferCtx& c) {
  const int64_t n = c.in(0).dims[axis_of(c)];
  int64_t total = 0;
  for (const int64_t size : c.attrs.ints("sizes")) {
    need(size >= 0 && !__builtin_add_overflow(total, size, &total), "a part of negative size");
  }
  if (total != n) refuse(cat("parts of ", total, " elements of an axis of ", n));
}

void transpose(const InferCtx& c) {
  std::vector<int64_t> perm = c.attrs.ints("perm");
  std::sort(perm.begin(), perm.end());
  bool whole = perm.size() == c.in(0).dims.size();
  for (size_t i = 0; i < perm.size(); ++i) whole = whole && perm[i] == static_cast<int64_t>(i);
  if (!whole) refuse(cat("perm ", to_string(c.attrs.ints("perm")), " of a tensor of rank ", c.in(0).dims.size()));
}

void reduce(const InferCtx& c) {
  for (const int64_t a : c.attrs.ints("axes")) {
    if (a < 0 || a >= static_cast<int64_t>(c.in(0).dims.size()))
      refuse(cat("axis ", a, " of a tensor of rank ", c.in(0).dims.size()));
  }
}

// Throws E_INDEX (Exit::model) if a constant index is not in [least, end). Indices that are not constant are checked
// when a kernel runs.
void check_indices(const InferCtx& c, size_t input, int64_t least, int64_t end) {
  const Value& v = c.in(input);
  if (v.kind != ValueKind::constant) return;
  for (const int64_t i : v.constant.to_ints()) {
    if (i < least || i >= end)
      fail(Exit::model, "E_INDEX", cat("the model's constant index ", i, " is outside an axis of ", end));
  }
}

// Checks a lookup of rows: x (outer, n, inner), indices (k), y (outer, k, inner).
void rows(const InferCtx& c, const Dims& x, const Dims& y) {
  const int64_t outer = c.attrs.i("outer", 1), n = c.attrs.i("n", 1), inner = c.attrs.i("inner", 1),
                k = numel(c.in(1).dims);
  need(outer >= 0 && n >= 0 && inner >= 0, "a table of negative extent");
  if (checked_mul(checked_mul(outer, n), inner) != numel(x) || checked_mul(checked_mul(outer, k), inner) != numel(y))
    refuse(cat("rows of ", to_string(x), " at ", k, " indices as ", to_string(y)));
  check_indices(c, 1, -n, n);
}
void gather_rows(const InferCtx& c) { rows(c, c.in(0).dims, c.attrs.ints("dims")); }
void scatter_rows(const InferCtx& c) { rows(c, c.attrs.ints("dims"), c.in(0).dims); }

// Checks indices along one axis. On the other axes the index tensor must not be larger than the table.
void elements(const InferCtx& c, const Dims& table) {
  const Dims& index = c.in(1).dims;
  const int64_t axis = c.attrs.i("axis", 0);
  need(index.size() == table.size() && axis >= 0 && axis < static_cast<int64_t>(table.size()),
       "data and indices differ in rank");
  for (size_t d = 0; d < table.size(); ++d) {
    if (static_cast<int64_t>(d) != axis && index[d] > table[d])
      refuse(cat("indices ", to_string(index), " are larger than ", to_string(table)));
  }
  const int64_t n = table[static_cast<size_t>(axis)];
  check_indices(c, 1, -n, n);
}
void gather_elements(const InferCtx& c) { elements(c, c.in(0).dims); }
void scatter_add(const InferCtx& c) {
  elements(c, c.attrs.ints("dims"));
  need_dims(c, 0, c.in(1).dims, "what is added");
}
void scatter_elements(const InferCtx& c) {
  elements(c, c.in(0).dims);
  need_dims(c, 2, c.in(1).dims, "the update");
}
void scatter_nd(const InferCtx& c) {
  const int64_t n = c.attrs.i("n", 1), inner = c.attrs.i("inner", 1);
  need(c.in(1).dtype == DType::i64 && n >= 0 && inner >= 0, "row numbers are not int64");
  if (checked_mul(n, inner) != numel(c.in(0).dims) || checked_mul(numel(c.in(1).dims), inner) != numel(c.in(2).dims)) {
    refuse(cat("updates ", to_string(c.in(2).dims), " at ", numel(c.in(1).dims), " rows of ", inner, " in ",
               to_string(c.in(0).dims)));
  }
  check_indices(c, 1, 0, n);
}

void top_k(const InferCtx& c) {
  const int64_t k = c.attrs.i("k", 0), n = c.in(0).dims[axis_of(c)];
  if (k < 0 || k > n) refuse(cat("the first ", k, " of ", n));
}
void arg(const InferCtx& c) {
  if (c.in(0).dims[axis_of(c)] == 0) refuse("the place of the largest of no elements");
}

void layer_norm(const InferCtx& c) {
  const int64_t n = c.attrs.i("n", 1);
  if (n < 1 || numel(c.in(0).dims) % n != 0) refuse(cat("norms over ", n, " of ", to_string(c.in(0).dims)));
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (i < c.n_in() && c.inputs[i] && numel(c.in(i).dims) != n)
      refuse(cat("scale or bias ", to_string(c.in(i).dims), " for norms over ", n));
  }
}

void mat_mul(const InferCtx& c) {
  if (c.n_in() < 3 || !c.inputs[2]) return;
  const Dims& b = c.in(1).dims;
  const int64_t n = b[c.attrs.i("transB", 0) != 0 ? b.size() - 2 : b.size() - 1];
  if (numel(c.in(2).dims) != n) refuse(cat("a bias of ", to_string(c.in(2).dims), " for ", n, " columns"));
}

// Checks that the integers, scales and zero points of a matrix are within their tensors (backend/quantized_matrix.h).
void dequantize_matrix(const InferCtx& c) {
  const auto at = [&](const char* name, int64_t fallback) { return c.attrs.i(name, fallback); };
  const int64_t rows = at("rows", 0), columns = at("columns", 0), bits = at("bits", 4), row_bits = at("row_bits", 0),
                zero_bits = at("zero_bits", 0), block_rows = at("block_rows", 1), block = at("block_columns", 1),
                flat = at("flat_block", 0), codes = at("codes", 0);
  const bool table = codes > 1;
  need(rows >= 0 && columns >= 0 && bits >= 1 && bits <= 8 && row_bits >= 0 && block_rows >= 1 && block >= 1 &&
           flat >= 0 && zero_bits >= 0 && zero_bits <= 8 && codes >= 0 && codes <= 3 && (!table || bits == 4) &&
           (at("high_first", 0) == 0 || 8 % bits == 0),
       "a quantized matrix of an unknown form");
  if (rows == 0 || columns == 0) return;
  const int64_t elements = checked_mul(rows, columns);
  const auto holds = [&](size_t i, int64_t wanted, const char* what) {
    if (wanted > numel(c.in(i).dims)) refuse(cat(numel(c.in(i).dims), " ", what, ", ", wanted, " needed"));
  };
  need(size_of(c.in(0).dtype) == 1, "quantized elements that are not bytes");
  holds(0, (checked_mul(rows - 1, row_bits) + checked_mul(columns, bits) + 7) / 8, "bytes of quantized elements");
  const int64_t last = flat ? (elements - 1) / flat
                            : checked_mul((rows - 1) / block_rows, at("scale_row", 0)) +
                                  checked_mul((columns - 1) / block, at("scale_column", 0));
  holds(1, last + 1, "scales");
  if (c.n_in() < 3 || !c.inputs[2]) return;
  if (zero_bits == 0) return holds(2, last + 1, "zero points");
  need(size_of(c.in(2).dtype) == 1, "packed zero points that are not bytes");
  const int64_t used = checked_mul((columns - 1) / block + 1, zero_bits);
  holds(2, (checked_mul(rows - 1, at("zero_row_bits", 0)) + used + 7) / 8, "bytes of zero points");
}

// Checks xg (T, B, G * H) and R (G * H, H) for G gates, `states` states (B, H), lengths (B), and a vector of `more` *
// H elements (peepholes or reset biases).
void recurrent(const InferCtx& c, int64_t gates, size_t states, int64_t more) {
  const Dims &x = c.in(0).dims, &r = c.in(1).dims;
  const int64_t hidden = r[1];
  if (r[0] != gates * hidden || x[2] != r[0])
    refuse(cat("gates ", to_string(x), " with recurrence weights ", to_string(r)));
  for (size_t i = 0; i < states; ++i) need_dims(c, 2 + i, {x[1], hidden}, "an initial state");
  need_dims(c, 2 + states, {x[1]}, "the lengths");
  need_dims(c, 3 + states, {more * hidden}, "the peepholes or reset biases");
  if (c.n_in() > 2 + states && c.inputs[2 + states]) {
    const DType t = c.in(2 + states).dtype;
    need(t == DType::i32 || t == DType::i64, "lengths are not int32 or int64");
  }
}
void lstm(const InferCtx& c) { recurrent(c, 4, 2, 3); }
void gru(const InferCtx& c) { recurrent(c, 3, 1, 1); }
void rnn(const InferCtx& c) { recurrent(c, 1, 1, 0); }

const RegisterChecks checks{{"Slice", slice},
                            {"SliceGrad", slice_grad},
                            {"Concat", axis_alone},
                            {"AxisMap", axis_map},
                            {"Split", split},
                            {"Transpose", transpose},
                            {"ReduceSum", reduce},
                            {"ReduceMax", reduce},
                            {"ReduceMin", reduce},
                            {"ReduceProd", reduce},
                            {"GatherRows", gather_rows},
                            {"ScatterRows", scatter_rows},
                            {"GatherElements", gather_elements},
                            {"ScatterElementsAdd", scatter_add},
                            {"ScatterElements", scatter_elements},
                            {"ScatterNDRows", scatter_nd},
                            {"TopK", top_k},
                            {"ArgMax", arg},
                            {"ArgMin", arg},
                            {"CumSum", axis_alone},
                            {"LayerNorm", layer_norm},
                            {"MatMul", mat_mul},
                            {"DequantizeMatrix", dequantize_matrix},
                            {"LSTM", lstm},
                            {"GRU", gru},
                            {"RNN", rnn}};

}  // namespace
}  // namespace amp
