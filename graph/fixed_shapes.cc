// find_fixed_shapes() binds the graph, without executing it, for 2 and for 3 rows. Usually the outputs' rows grow with
// the inputs' rows; then any number of rows is possible, and no candidates are tried. Otherwise candidates are bound
// one by one. A candidate for which the outputs have as many rows as the inputs is preferred to one for which they have
// a multiple, because a graph that always outputs 8 rows can also be bound for 4. Limits on time and tries bound the
// search for large models.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "graph/fixed_rows.h"
#include "graph/symbols.h"

namespace amp {

namespace {

constexpr int64_t kLargest = 4096;      // maximum number of rows and maximum length
constexpr size_t kMostTries = 400;      // maximum number of bindings
constexpr double kMostSeconds = 5;      // time limit of all bindings
constexpr int64_t kShortConstant = 64;  // maximum number of elements of a shape or index list

using OutputDims = std::vector<Dims>;  // shapes of the outputs that depend on an input

class Prober {
 public:
  Prober(const SourceGraph& g, const std::vector<int>& outputs, const Evaluator& evaluator)
      : g_(g), outputs_(outputs), evaluator_(evaluator), table_(g), inputs_(fed_inputs(g, needed_inputs(g, outputs))) {
    for (const int v : outputs) {
      if (g.value(v).kind == SourceKind::temp && !fed_inputs(g, needed_inputs(g, {v})).empty()) dependent_.push_back(v);
    }
    for (const int v : inputs_) {
      const SourceValue& x = g.value(v);
      known_ &= x.rank_known;
      for (size_t i = 0; i < x.dims.size(); ++i) {
        open_ |= i > 0 && x.dims[i].value < 0;
        pictures_ |= x.dims.size() == 4 && is_float(x.dtype);
        if (i == 0) varies_ |= x.dims[0].value != 1;
      }
    }
  }

  bool known() const { return known_ && !dependent_.empty(); }  // whether all input ranks are known
  bool open() const { return open_; }                           // whether a dimension other than the first is dynamic
  bool pictures() const { return pictures_; }
  const std::vector<int>& inputs() const { return inputs_; }
  const std::vector<int>& dependent() const { return dependent_; }

  std::optional<OutputDims> bind(int64_t rows, int64_t length) {
    if (++tries_ > kMostTries || seconds() > kMostSeconds) return std::nullopt;
    try {
      BindOptions o;
      o.outputs = outputs_;
      for (const int v : inputs_) o.input_dims[g_.value(v).name] = dims_of(g_.value(v), rows, length);
      Graph graph;
      Builder b(graph, evaluator_);
      const Bound bound = amp::bind(g_, table_, o, b);
      OutputDims out;
      for (const int v : dependent_) out.push_back(b.dims(bound.values[static_cast<size_t>(v)]));
      return out;
    } catch (const Error&) {
      return std::nullopt;
    }
  }

 private:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count(); }

  Dims dims_of(const SourceValue& x, int64_t rows, int64_t length) const {
    Dims d;
    const SymbolSizes symbols = probed_symbols(g_, rows, length);
    for (size_t i = 0; i < x.dims.size(); ++i) {
      const int64_t is = x.dims[i].value;
      const std::optional<int64_t> named = symbols.of(x.dims[i].symbol);
      if (i == 0)
        // varies_: some input has another first extent than 1, so this input has no batch dimension.
        d.push_back(is == 1 && varies_ ? 1 : rows);
      else if (is >= 0)
        d.push_back(is);
      else if (named)
        d.push_back(*named);
      else
        d.push_back(x.dims.size() == 4 && i == 1 && is_float(x.dtype) && x.dims[3].value != 1 && x.dims[3].value != 3
                        ? 3  // the channels of an image
                        : length);
    }
    return d;
  }

  const SourceGraph& g_;
  const std::vector<int>& outputs_;
  const Evaluator& evaluator_;
  const ParamTable table_;
  const std::vector<int> inputs_;
  std::vector<int> dependent_;  // outputs that depend on an input
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  size_t tries_ = 0;
  bool known_ = true, open_ = false, pictures_ = false, varies_ = false;
};

void add(std::vector<int64_t>& to, int64_t n) {
  if (n >= 1 && n <= kLargest && std::find(to.begin(), to.end(), n) == to.end()) to.push_back(n);
}

bool scalar(const Dims& d) { return d.size() < 2 && numel(d) == 1; }

// Returns true if a dimension of the output grows in proportion to the rows, from shape `two` (2 rows) to shape `many`
// (`rows` rows). Also returns true for scalars.
bool follows(const Dims& two, const Dims& many, int64_t rows) {
  if (scalar(two) && scalar(many)) return true;
  for (size_t k = 0; k < std::min(two.size(), many.size()); ++k) {
    if (two[k] > 0 && two[k] * rows == many[k] * 2) return true;
  }
  return false;
}

bool follow(const OutputDims& two, const OutputDims& three) {
  for (size_t i = 0; i < two.size(); ++i) {
    if (!follows(two[i], three[i], 3)) return false;
  }
  return true;
}

// Returns all numbers in the constant `ends` of live Slices.
std::set<int64_t> slice_ends(const SourceGraph& g, const std::vector<int>& outputs) {
  std::set<int64_t> out;
  const std::vector<bool> live = live_nodes(g, outputs);
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    const SourceNode& node = g.nodes[n];
    if (!live[n] || node.op != "Slice") continue;
    std::vector<int64_t> ends = node.attrs.ints("ends", {});
    if (node.inputs.size() > 2 && node.inputs[2] >= 0 && g.value(node.inputs[2]).data)
      ends = g.value(node.inputs[2]).data.to_ints();
    for (const int64_t end : ends) {
      if (end >= 1 && end <= kLargest) out.insert(end);
    }
  }
  return out;
}

// Returns the number of rows above which the outputs stop growing, such as 8 after a Slice of the first 8 rows; 0 if
// they always grow.
int64_t most_rows(const SourceGraph& g, Prober& p, const std::vector<int>& outputs, const OutputDims& two,
                  int64_t length) {
  const std::set<int64_t> ends = slice_ends(g, outputs);
  if (ends.empty()) return 0;
  for (const int64_t end : {*ends.rbegin(), *ends.begin()}) {
    const int64_t rows = std::max<int64_t>(4, end + 1);
    const std::optional<OutputDims> many = p.bind(rows, length);
    if (!many) continue;  // the graph cannot be bound for that many rows
    for (size_t i = 0; i < two.size(); ++i) {
      if (follows(two[i], (*many)[i], rows) || two[i].empty() || (*many)[i].empty() || two[i][0] < 2) continue;
      const int64_t most = (*many)[i][0] / (two[i][0] / 2);
      if (most >= 1 && most < rows && p.bind(most, length)) return most;
    }
    return 0;
  }
  return 0;
}

std::vector<int64_t> declared_rows(const SourceGraph& g, const std::vector<int>& inputs) {
  std::vector<int64_t> out;
  for (const int v : inputs) {
    if (!g.value(v).dims.empty()) add(out, g.value(v).dims[0].value);
  }
  return out;
}

// Returns candidates for a graph whose outputs have the same size for 2 and for 3 rows. An output may depend on the
// whole batch (a covariance) or only on its first rows (a constant index). The output's extent is a candidate if
// binding fails for fewer rows, or if it is 1 where the file declares a dynamic extent.
std::vector<int64_t> first_rows_only(const SourceGraph& g, Prober& p, const OutputDims& two, int64_t length) {
  std::vector<int64_t> out = declared_rows(g, p.inputs());
  for (size_t i = 0; i < two.size(); ++i) {
    const SourceValue& y = g.value(p.dependent().at(i));
    const bool open = y.rank_known && !y.dims.empty() && y.dims[0].value < 0;
    if (two[i].size() < 2 || two[i][0] < 1) continue;
    if (two[i][0] == 1 ? open : !p.bind(two[i][0] - 1, length)) add(out, two[i][0]);
  }
  return out;
}

// Returns the largest number of output rows per input row; nullopt if an output has no dimension that holds rows.
std::optional<int64_t> rows_a_row(const OutputDims& outputs, int64_t rows) {
  int64_t most = 1;
  for (const Dims& d : outputs) {
    if (scalar(d)) continue;
    if (d.empty()) return std::nullopt;
    if (d[0] > 0 && d[0] % rows == 0) {
      most = std::max(most, d[0] / rows);
    } else if (std::find(d.begin(), d.end(), rows) == d.end()) {
      return std::nullopt;
    }
  }
  return most;
}

// Returns the numbers in the graph that may be a number of rows: elements of short integer constants (shapes, indices,
// repeats) and extents of constants.
std::vector<int64_t> numbers_of(const SourceGraph& g, const std::vector<int>& outputs) {
  std::vector<int64_t> out;
  std::set<int64_t> seen;
  const auto note = [&](int64_t n) {
    if (n >= 1 && n <= int64_t{1} << 24 && seen.insert(n).second) out.push_back(n);
  };
  const std::vector<bool> live = live_nodes(g, outputs);
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    if (!live[n]) continue;
    for (const int v : g.nodes[n].inputs) {
      if (v < 0 || !g.value(v).data) continue;
      const SourceValue& x = g.value(v);
      const HostTensor& t = x.data;
      const bool whole = t.dtype() == DType::i64 || t.dtype() == DType::i32;
      if (whole && t.numel() <= kShortConstant) {
        for (const int64_t i : t.to_ints()) note(i);
      }
      if (x.kind == SourceKind::constant || g.nodes[n].op == "LSTM" || g.nodes[n].op == "GRU" ||
          g.nodes[n].op == "RNN") {
        for (const int64_t d : t.dims()) note(d);
      }
    }
    for (const int64_t i : g.nodes[n].attrs.ints("shape", {})) note(i);
  }
  return out;
}

// Returns the candidates in the order in which they are tried: declared extents, 1, the graph's numbers, their
// divisors.
std::vector<int64_t> candidates_of(const SourceGraph& g, const std::vector<int>& inputs,
                                   const std::vector<int64_t>& numbers) {
  std::vector<int64_t> out = declared_rows(g, inputs);
  add(out, 1);
  for (const int64_t n : numbers) add(out, n);
  for (const int64_t n : numbers) {
    for (int64_t d = 2; d * d <= n; ++d) {
      if (n % d != 0) continue;
      add(out, d);
      add(out, n / d);
    }
  }
  return out;
}

std::vector<int64_t> lengths_of(const Prober& p, const std::vector<int64_t>& numbers) {
  if (!p.open()) return {1};
  std::vector<int64_t> out = p.pictures() ? std::vector<int64_t>{224, 32, 64, 28, 96, 128, 256, 299, 384, 512}
                                          : std::vector<int64_t>{3, 8, 16, 32, 64, 128, 256, 512};
  for (const int64_t n : numbers) add(out, n);
  for (const int64_t n : numbers) {  // a square number may be the pixel count of an image: 49 gives side 7
    const auto root = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(n))));
    if (p.pictures() && root * root == n) add(out, root);
  }
  return out;
}

// Returns `length` if no other length can be bound; 0 if one can or if no dimension is dynamic.
int64_t only_length(Prober& p, int64_t rows, int64_t length, const std::vector<int64_t>& lengths) {
  if (!p.open()) return 0;
  std::vector<int64_t> others = {length + 1, 2 * length, length + 32};
  for (size_t i = 0; i < std::min<size_t>(lengths.size(), 10); ++i) add(others, lengths[i]);
  for (const int64_t other : others) {
    if (other != length && p.bind(rows, other)) return 0;
  }
  return length;
}

}  // namespace

FixedShapes find_fixed_shapes(const SourceGraph& g, const std::vector<int>& outputs, const Evaluator& evaluator) {
  if (!unknown_operators(g, outputs).empty()) return {};
  Prober p(g, outputs, evaluator);
  if (!p.known()) return {};
  const std::vector<int64_t> numbers = numbers_of(g, outputs), lengths = lengths_of(p, numbers);
  std::vector<int64_t> candidates = candidates_of(g, p.inputs(), numbers);
  for (const int64_t length : lengths) {
    const std::optional<OutputDims> two = p.bind(2, length), three = two ? p.bind(3, length) : std::nullopt;
    if (!three) continue;
    if (follow(*two, *three)) return {most_rows(g, p, outputs, *two, length), only_length(p, 2, length, lengths)};
    candidates = first_rows_only(g, p, *two, length);
    break;
  }
  FixedShapes best;
  int64_t least = 0;
  for (const int64_t length : lengths) {
    for (const int64_t rows : candidates) {
      const std::optional<OutputDims> out = p.bind(rows, length);
      const std::optional<int64_t> ratio = out ? rows_a_row(*out, rows) : std::nullopt;
      if (!ratio || (best.rows > 0 && (*ratio > least || (*ratio == least && rows <= best.rows)))) continue;
      best = {rows, length};
      least = *ratio;
    }
    if (best.rows > 0) break;
  }
  if (best.rows > 0) best.length = only_length(p, best.rows, best.length, lengths);
  return best;
}

}  // namespace amp
