// Starts at each Add, takes one operand for s (x A) B and searches the other for a product that reads the same x. Names
// are not read, because every tool names its adapters differently. A product of x with two matrices and no activation
// between them, added to a product of x with a third matrix, has no other use than that of an adapter.
#include "importer/discover/low_rank_pairs.h"

#include <algorithm>

#include "base/text.h"

namespace amp {
namespace {

constexpr int kSteps = 12;  // the longest chain of views and factors that is followed

bool passes_on(const SourceNode& n) {
  return one_of(n.op, {"Identity", "Cast", "Dropout", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose",
                       "QuantizeLinear", "DequantizeLinear"});
}
bool is_packed(const SourceNode& n) { return one_of(n.op, {"MatMulNBits", "MatMulBnb4"}); }
bool is_product(const SourceNode& n) {
  return (is_packed(n) || one_of(n.op, {"MatMul", "Gemm", "FusedMatMul", "Conv", "Gather"})) && n.inputs.size() >= 2;
}
size_t data_input(const SourceNode& n) { return n.op == "Gather" ? 1 : 0; }

struct Branch {
  std::vector<int> a, b, scales, zeros;
};

class Finder {
 public:
  explicit Finder(const SourceGraph& g) : g_(g) {
    found_.factor.assign(g.values.size(), 0);
    found_.scale = found_.zeros = found_.factor;
    found_.sums.assign(g.nodes.size(), 0);
  }

  LowRankPairs run() {
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const SourceNode& n = g_.nodes[i];
      if (n.op != "Add" || n.inputs.size() != 2) continue;
      const bool second = pair(n.inputs[0], n.inputs[1]), first = pair(n.inputs[1], n.inputs[0]);
      found_.sums[i] = first || second;
    }
    return std::move(found_);
  }

 private:
  bool stored(int v) const { return v >= 0 && static_cast<bool>(g_.value(v).data); }
  const SourceNode* maker(int v) const {
    const int p = v < 0 ? -1 : g_.value(v).producer;
    return p < 0 || g_.nodes[static_cast<size_t>(p)].inputs.empty() ? nullptr : &g_.nodes[static_cast<size_t>(p)];
  }
  bool is_number(int v) const {
    return stored(v) && is_float(g_.value(v).data.dtype()) && g_.value(v).data.numel() == 1;
  }

  // Returns the operand of n that is a stored number by which n multiplies or divides the other operand; -1 if there is
  // none.
  int number_of(const SourceNode& n) const {
    if (!one_of(n.op, {"Mul", "Div"}) || n.inputs.size() != 2) return -1;
    if (is_number(n.inputs[1])) return 1;
    return n.op == "Mul" && is_number(n.inputs[0]) ? 0 : -1;
  }

  // Follows views towards the inputs, and factors if `scales` is given. Returns the first value that is neither a view
  // nor such a factor's result.
  int source(int v, std::vector<int>* scales) const {
    for (int steps = 0; steps < kSteps; ++steps) {
      const SourceNode* n = maker(v);
      if (!n) return v;
      const int k = scales ? number_of(*n) : -1;
      if (k < 0 && !passes_on(*n)) return v;
      if (k >= 0) scales->push_back(n->inputs[static_cast<size_t>(k)]);
      v = n->inputs[k == 0 ? 1 : 0];
    }
    return v;
  }

  bool all_zero(int v) const {
    const std::vector<double> x = g_.value(v).data.to_doubles();
    return std::all_of(x.begin(), x.end(), [](double e) { return e == 0; });
  }

  // Adds the stored tensors that make up the weight v to `out`, each with a flag that is true if it is stored
  // transposed. Zeros next to a scaled part of a Concat are not part of the weight. Returns false if v is computed in
  // another way.
  struct Leaf {
    int value;
    bool transposed;
  };
  bool leaves(int v, bool transposed, Branch& b, std::vector<Leaf>& out, int steps = 0) const {
    if (stored(v)) {
      out.push_back({v, transposed});
      return true;
    }
    const SourceNode* n = maker(v);
    if (!n || steps > kSteps) return false;
    if (const int k = number_of(*n); k >= 0) {
      b.scales.push_back(n->inputs[static_cast<size_t>(k)]);
      return leaves(n->inputs[k == 0 ? 1 : 0], transposed, b, out, steps + 1);
    }
    if (n->op != "Concat")
      return passes_on(*n) && leaves(n->inputs[0], transposed != (n->op == "Transpose"), b, out, steps + 1);
    const bool scaled =
        std::any_of(n->inputs.begin(), n->inputs.end(), [&](int i) { return maker(i) && number_of(*maker(i)) >= 0; });
    return std::all_of(n->inputs.begin(), n->inputs.end(), [&](int i) {
      if (!scaled || !stored(i) || !is_float(g_.value(i).data.dtype()) || !all_zero(i))
        return leaves(i, transposed, b, out, steps + 1);
      b.zeros.push_back(i);
      return true;
    });
  }

  // Adds the stored parts of the product's weight to `out`. Returns false if a part maps to more values than it reads
  // (with `narrows`), or to fewer (without).
  bool factors(const SourceNode& n, bool narrows, Branch& b, std::vector<int>& out) const {
    std::vector<Leaf> all;
    const size_t weight = n.op == "Gather" ? 0 : 1;
    if (!leaves(n.inputs[weight], n.op == "Conv" || n.attrs.i("transB", 0) != 0, b, all) || all.empty()) return false;
    for (const Leaf& leaf : all) {
      const HostTensor& t = g_.value(leaf.value).data;
      int64_t in = n.attrs.i("K", 0), to = n.attrs.i("N", 0);
      if (!is_packed(n)) {
        if (t.numel() == 0 || (n.op == "Conv" ? t.rank() < 3 : t.rank() != 2)) return false;
        to = t.dims()[leaf.transposed ? 0 : 1];
        in = t.numel() / to;
      }
      if (narrows ? to > in : in > to) return false;
      out.push_back(leaf.value);
    }
    return true;
  }

  // True if v is computed from a product of x with a stored weight, by sums, views and factors.
  bool is_map_of(int v, int x, int steps = 0) const {
    std::vector<int> numbers;
    v = source(v, &numbers);
    const SourceNode* n = maker(v);
    if (!n || steps > kSteps) return false;
    if (one_of(n->op, {"Add", "Sub"}))
      return std::any_of(n->inputs.begin(), n->inputs.end(), [&](int i) { return is_map_of(i, x, steps + 1); });
    const bool table = n->op == "GatherBlockQuantized";
    return (table || is_product(*n)) && source(n->inputs[table ? 1 : data_input(*n)], nullptr) == x;
  }

  // low, base: the operands of an Add. Marks the parts of an adapter if `low` is x A B, perhaps scaled, and `base` is
  // computed from a product of the same x with a stored weight. Returns false for other operands.
  bool pair(int low, int base) {
    Branch b;
    const SourceNode* second = maker(source(low, &b.scales));
    if (!second || !is_product(*second) || second->op == "Gather") return false;
    const SourceNode* first = maker(source(second->inputs[0], &b.scales));
    if (!first || !is_product(*first) || !factors(*first, true, b, b.a) || !factors(*second, false, b, b.b))
      return false;
    if (!is_map_of(base, source(first->inputs[data_input(*first)], nullptr))) return false;
    const auto mark = [](std::vector<char>& of, const std::vector<int>& values) {
      for (const int v : values) of[static_cast<size_t>(v)] = 1;
    };
    mark(found_.factor, b.a);
    mark(found_.factor, b.b);
    mark(found_.scale, b.scales);
    mark(found_.zeros, b.zeros);
    return true;
  }

  const SourceGraph& g_;
  LowRankPairs found_;
};

}  // namespace

LowRankPairs find_low_rank_pairs(const SourceGraph& g) { return Finder(g).run(); }

}  // namespace amp
