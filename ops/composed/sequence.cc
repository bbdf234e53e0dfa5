// Sequences (ONNX 11: SequenceConstruct, SequenceEmpty, SequenceInsert, SequenceErase, SequenceAt, SequenceLength,
// SplitToSequence, ConcatFromSequence) and optionals (15: Optional, OptionalGetElement, OptionalHasElement). They are
// evaluated when the graph is bound to input shapes (graph/bind.h), as lists of values (graph/lists.h). Positions and
// lengths must be known then.
#include "base/error.h"
#include "graph/lists.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/compose.h"

namespace amp {
namespace {

const std::vector<ValueId>& items(const Lowering& l, size_t i) {
  const std::vector<ValueId>* list = list_of(l.b.graph(), l.in(i));
  if (!list || is_absent(l.b.graph(), l.in(i)))
    fail(Exit::model, "E_VALUE_TYPE", cat(l.node.op, ": input ", i, " is no sequence"));
  return *list;
}

// Returns the position that input i gives, among n elements. Negative positions count from the end. last: whether n
// itself is a valid position.
size_t position(const Lowering& l, size_t i, size_t n, bool last = false) {
  const int64_t size = static_cast<int64_t>(n), p = l.ints(i).at(0), from_start = p < 0 ? p + size : p;
  if (from_start < 0 || from_start > size || (from_start == size && !last))
    fail(Exit::model, "E_INDEX", cat(l.node.op, ": position ", p, " in a sequence of ", n));
  return static_cast<size_t>(from_start);
}

void lower_construct(Lowering& l) {
  std::vector<ValueId> list;
  for (size_t i = 0; i < l.n_in(); ++i) list.push_back(l.in(i));
  l.out(0, make_list(l.b, std::move(list)));
}
void lower_empty(Lowering& l) { l.out(0, make_list(l.b, {})); }
void lower_insert(Lowering& l) {
  std::vector<ValueId> list = items(l, 0);
  const size_t at = l.has(2) ? position(l, 2, list.size(), true) : list.size();
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), l.in(1));
  l.out(0, make_list(l.b, std::move(list)));
}
void lower_erase(Lowering& l) {
  std::vector<ValueId> list = items(l, 0);
  if (list.empty()) fail(Exit::model, "E_INDEX", "SequenceErase of an empty sequence");
  const size_t at = l.has(1) ? position(l, 1, list.size()) : list.size() - 1;
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
  l.out(0, make_list(l.b, std::move(list)));
}
void lower_at(Lowering& l) {
  const std::vector<ValueId>& list = items(l, 0);
  l.out(0, list[position(l, 1, list.size())]);
}
void lower_length(Lowering& l) { l.out(0, l.b.scalar(static_cast<double>(items(l, 0).size()), DType::i64)); }

void lower_split(Lowering& l) {
  Builder& b = l.b;
  const int64_t axis = normalize_axis(l.attrs.i("axis", 0), l.rank(0)), n = l.dims(0)[static_cast<size_t>(axis)];
  const bool drop = !l.has(1) && l.attrs.i("keepdims", 1) == 0;
  std::vector<int64_t> parts(static_cast<size_t>(l.has(1) ? 0 : n), 1);
  if (l.has(1)) {
    parts = l.ints(1);
    if (l.rank(1) == 0) {  // all parts have one size; the last may be smaller
      const int64_t size = parts.at(0);
      if (size < 1) fail(Exit::model, "E_ATTR", cat("SplitToSequence into parts of ", size));
      parts.clear();
      for (int64_t at = 0; at < n; at += size) parts.push_back(std::min(size, n - at));
    }
  }
  std::vector<ValueId> list;
  int64_t at = 0;
  for (const int64_t size : parts) {
    if (size < 0 || at + size > n)
      fail(Exit::model, "E_SHAPE", cat("SplitToSequence: parts ", to_string(parts), " of an axis of ", n));
    const ValueId part = slice(b, l.in(0), axis, at, size);
    Dims d = b.dims(part);
    if (drop) d.erase(d.begin() + axis);
    list.push_back(b.reshape(part, d));
    at += size;
  }
  if (at != n) fail(Exit::model, "E_SHAPE", cat("SplitToSequence: parts ", to_string(parts), " of an axis of ", n));
  l.out(0, make_list(b, std::move(list)));
}

void lower_concat_sequence(Lowering& l) {
  Builder& b = l.b;
  std::vector<ValueId> list = items(l, 0);
  if (list.empty()) fail(Exit::model, "E_SHAPE", "ConcatFromSequence of an empty sequence");
  const bool stacked = l.attrs.i("new_axis", 0) != 0;
  const int64_t axis = normalize_axis(l.attrs.i("axis", 0), b.rank(list[0]) + (stacked ? 1 : 0));
  for (ValueId& v : list) {
    Dims d = b.dims(v);
    if (stacked) d.insert(d.begin() + axis, 1);
    v = b.reshape(v, d);
  }
  l.out(0, list.size() == 1 ? list[0] : concat(b, std::move(list), axis));
}

bool empty(const Lowering& l) { return !l.has(0) || is_absent(l.b.graph(), l.in(0)); }
void lower_optional(Lowering& l) { l.out(0, l.has(0) ? l.in(0) : make_absent(l.b)); }
void lower_get(Lowering& l) {
  if (empty(l)) fail(Exit::model, "E_VALUE_TYPE", "OptionalGetElement of an optional without content");
  l.out(0, l.in(0));
}
void lower_has(Lowering& l) { l.out(0, l.b.scalar(empty(l) ? 0 : 1, DType::boolean)); }

const RegisterOnnx sequence_onnx[] = {RegisterOnnx{{"SequenceConstruct", lower_construct, 11, {}}},
                                      RegisterOnnx{{"SequenceEmpty", lower_empty, 11, {}}},
                                      RegisterOnnx{{"SequenceInsert", lower_insert, 11, {}}},
                                      RegisterOnnx{{"SequenceErase", lower_erase, 11, {}}},
                                      RegisterOnnx{{"SequenceAt", lower_at, 11, {}}},
                                      RegisterOnnx{{"SequenceLength", lower_length, 11, {}}},
                                      RegisterOnnx{{"SplitToSequence", lower_split, 11, {}}},
                                      RegisterOnnx{{"ConcatFromSequence", lower_concat_sequence, 11, {}}},
                                      RegisterOnnx{{"Optional", lower_optional, 15, {}}},
                                      RegisterOnnx{{"OptionalGetElement", lower_get, 15, {}}},
                                      RegisterOnnx{{"OptionalHasElement", lower_has, 15, {}}}};

}  // namespace
}  // namespace amp
