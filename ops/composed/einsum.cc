// Einsum (ONNX 12): any equation, implicit output, ellipsis, repeated letters. Operands are contracted in order, two at
// a time, by one MatMul. A letter that both operands have is a batch dim if the result keeps it, otherwise the inner
// dim. Letters of one operand only are its rows or columns.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/compose.h"

namespace amp {
namespace {

using Labels = std::vector<int>;  // letters; an ellipsis dim is 1000 + its distance from the right
constexpr int kEllipsis = 1000;

bool holds(const Labels& l, int label) { return std::find(l.begin(), l.end(), label) != l.end(); }

struct Factor {
  ValueId v;
  Labels labels;
};

Labels parse(const std::string& text, int64_t ellipsis_dims) {
  Labels out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 3, "...") == 0) {
      for (int64_t k = ellipsis_dims; k-- > 0;) out.push_back(kEllipsis + static_cast<int>(k));
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      out.push_back(text[i]);
    } else {
      fail(Exit::model, "E_ATTR", cat("Einsum: '", text, "' is no list of letters"));
    }
  }
  return out;
}

// Transposes t so that its dims are in the order of the labels `order`, which must be labels of t.
ValueId arranged(Builder& b, const Factor& t, const Labels& order) {
  std::vector<int64_t> perm;
  for (const int label : order) perm.push_back(std::find(t.labels.begin(), t.labels.end(), label) - t.labels.begin());
  return b.transpose(t.v, perm);
}

// Replaces dims that have the same letter by their diagonal, so that each letter occurs once in the operand.
Factor without_repeats(Builder& b, Factor t) {
  for (size_t p = 0; p < t.labels.size(); ++p) {
    for (size_t q = p + 1; q < t.labels.size();) {
      if (t.labels[p] != t.labels[q]) {
        ++q;
        continue;
      }
      const Dims d = b.dims(t.v);
      const int64_t n = d[p];
      if (d[q] != n) fail(Exit::model, "E_SHAPE", cat("Einsum: a repeated letter has extents ", n, " and ", d[q]));
      std::vector<int64_t> perm;
      Dims rest;
      Labels labels;
      for (size_t i = 0; i < d.size(); ++i) {
        if (i == p || i == q) continue;
        perm.push_back(static_cast<int64_t>(i));
        rest.push_back(d[i]);
        labels.push_back(t.labels[i]);
      }
      labels.push_back(t.labels[p]);
      perm.insert(perm.end(), {static_cast<int64_t>(p), static_cast<int64_t>(q)});
      rest.push_back(n * n);
      t.v = slice(b, b.reshape(b.transpose(t.v, perm), rest), static_cast<int64_t>(rest.size()) - 1, 0, n, n + 1);
      t.labels = labels;
      return without_repeats(b, t);
    }
  }
  return t;
}

Factor summed(Builder& b, const Factor& t, const Labels& keep) {
  std::vector<int64_t> axes;
  Labels left;
  for (size_t i = 0; i < t.labels.size(); ++i) {
    if (holds(keep, t.labels[i]))
      left.push_back(t.labels[i]);
    else
      axes.push_back(static_cast<int64_t>(i));
  }
  return axes.empty() ? t : Factor{b.reduce_sum(t.v, axes, false), left};
}

Factor contract(Builder& b, Factor x, Factor y, const Labels& keep) {
  Labels keep_x = keep, keep_y = keep;
  keep_x.insert(keep_x.end(), y.labels.begin(), y.labels.end());
  keep_y.insert(keep_y.end(), x.labels.begin(), x.labels.end());
  x = summed(b, x, keep_x);
  y = summed(b, y, keep_y);
  Labels both, inner, only_x, only_y;
  for (const int label : x.labels)
    (!holds(y.labels, label) ? only_x : holds(keep, label) ? both : inner).push_back(label);
  for (const int label : y.labels) {
    if (!holds(x.labels, label)) only_y.push_back(label);
  }
  std::map<int, int64_t> extent;
  for (const Factor* t : {&x, &y}) {
    for (size_t i = 0; i < t->labels.size(); ++i) extent[t->labels[i]] = b.dims(t->v)[i];
  }
  const auto count = [&](const Labels& labels) {
    int64_t n = 1;
    for (const int label : labels) n *= extent[label];
    return n;
  };
  const auto matrix = [&](const Factor& t, const Labels& only) {
    Labels order = both;
    order.insert(order.end(), only.begin(), only.end());
    order.insert(order.end(), inner.begin(), inner.end());
    const Dims flat{count(only), count(inner)};
    return b.reshape(arranged(b, t, order), both.empty() ? flat : Dims{count(both), flat[0], flat[1]});
  };
  const ValueId z = b.op("MatMul", {matrix(x, only_x), matrix(y, only_y)},
                         {{"transA", int64_t{0}}, {"transB", int64_t{1}}, {"alpha", 1.0}});
  Labels labels = both;
  labels.insert(labels.end(), only_x.begin(), only_x.end());
  labels.insert(labels.end(), only_y.begin(), only_y.end());
  Dims dims;
  for (const int label : labels) dims.push_back(extent[label]);
  return {b.reshape(z, dims), labels};
}

void lower_einsum(Lowering& l) {
  Builder& b = l.b;
  std::string equation = l.attrs.s("equation", "");
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  std::vector<std::string> parts{""};
  for (const char ch : equation.substr(0, arrow)) {
    if (ch == ',')
      parts.emplace_back();
    else
      parts.back() += ch;
  }
  if (parts.size() != l.n_in())
    fail(Exit::model, "E_ATTR", cat("Einsum '", equation, "' has ", parts.size(), " operands, the node ", l.n_in()));
  std::vector<Factor> terms;
  std::map<int, int64_t> extent;
  std::map<int, int> uses;
  int64_t widest = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool ellipsis = parts[i].find("...") != std::string::npos;
    const int64_t dims = ellipsis ? l.rank(i) - static_cast<int64_t>(parts[i].size()) + 3 : 0;
    widest = std::max(widest, dims);
    Factor t{l.in(i), parse(parts[i], dims)};
    if (static_cast<int64_t>(t.labels.size()) != l.rank(i))
      fail(Exit::model, "E_SHAPE", cat("Einsum: '", parts[i], "' for ", to_string(l.dims(i))));
    for (size_t k = 0; k < t.labels.size(); ++k) {
      int64_t& n = extent[t.labels[k]];
      n = std::max(n == 0 ? 1 : n, l.dims(i)[k]);
      ++uses[t.labels[k]];
    }
    terms.push_back(without_repeats(b, t));
  }
  Labels out;
  if (arrow != std::string::npos) {
    out = parse(equation.substr(arrow + 2), widest);
  } else {  // implicit output: the letters that occur once, sorted, after the ellipsis
    out = parse(widest > 0 ? "..." : "", widest);
    for (const auto& [label, n] : uses) {
      if (n == 1 && label < kEllipsis) out.push_back(label);
    }
  }
  for (Factor& t : terms) {  // removes dims of extent 1 that broadcast
    Dims wide;
    for (size_t k = 0; k < t.labels.size(); ++k) wide.push_back(b.dims(t.v)[k] == 0 ? 0 : extent[t.labels[k]]);
    t.v = b.expand(t.v, wide);
  }
  Factor acc = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    Labels keep = out;
    for (size_t k = i + 1; k < terms.size(); ++k)
      keep.insert(keep.end(), terms[k].labels.begin(), terms[k].labels.end());
    acc = contract(b, acc, terms[i], keep);
  }
  acc = summed(b, acc, out);
  if (acc.labels.size() != out.size())
    fail(Exit::model, "E_ATTR", cat("Einsum '", equation, "': the output names a letter that no operand has"));
  l.out(0, arranged(b, acc, out));
}
const RegisterOnnx einsum_onnx{{"Einsum", lower_einsum, 12, {}}};

}  // namespace
}  // namespace amp
