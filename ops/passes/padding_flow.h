// An abstract interpretation that determines what padded positions affect in a graph. Padding removal
// (ops/passes/padding.h) is based on it. It does not read batches. It assumes that the mask has ones and zeros
// and that labels at padding are ignored; trainer/compile/packing.h checks this for each batch.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "ops/passes/value_bounds.h"

namespace amp {

// The token axes of a value: dims (batch, .., length, ..) with length at `axis`; if flat, (batch length, ..).
struct TokenForm {
  size_t axis = 1;
  bool flat = false;
  bool operator==(const TokenForm&) const = default;
};

struct TokenPlaces {
  int64_t batch = 0, length = 0;
  int64_t count() const { return batch * length; }
  bool has_form(const Dims& d, TokenForm f) const;
};

// Returns the permutation of `rank` axes that moves axis `from` to axis `to` and keeps the order of the other axes.
inline std::vector<int64_t> moved_axis(size_t rank, size_t from, size_t to) {
  std::vector<int64_t> perm;
  for (size_t d = 0; d < rank; ++d) perm.push_back(static_cast<int64_t>(d));
  perm.erase(perm.begin() + static_cast<std::ptrdiff_t>(from));
  perm.insert(perm.begin() + static_cast<std::ptrdiff_t>(to), static_cast<int64_t>(from));
  return perm;
}

// Returns whether the node applies one functor element by element, with broadcasting.
bool is_elementwise(const Node& n);

// Returns the token form after a node that moves or processes tokens separately, if its first input has form f:
// Reshape, Transpose, Expand, Slice, reductions over other axes. Returns nullopt if the node may mix tokens.
std::optional<TokenForm> output_form(const Graph& g, const Node& n, TokenPlaces p, TokenForm f);

// The values that are known at all padded positions, or everywhere: functions of the mask (1 and 0), of labels that
// are ignored at padding, and of constants.
class PlaceValues {
 public:
  struct Known {
    bool uniform = false;                // whether all elements are the same number, `padded`
    TokenForm form;                      // the token form; only if not uniform
    std::optional<double> real, padded;  // the value at all tokens, and at all padded positions; nullopt if unknown
  };
  // given: known elements of inputs and of nodes' results, by index of the value. A value whose dims do not fit the
  // form in its `Known` is ignored.
  PlaceValues(const Graph& g, const Evaluator& evaluator, TokenPlaces p, const std::map<int32_t, Known>& given);
  const Known* at(ValueId v) const;
  // Returns whether v, extended to `rank` dims, equals x at padded positions of form f.
  bool padded_is(ValueId v, TokenForm f, size_t rank, double x) const;
  // Returns the bounds of v's elements in the padded graph.
  const Bounds& bounds(ValueId v) const { return bounds_[static_cast<size_t>(v.index)]; }

 private:
  Bounds bounds_after(const Node& n) const;
  bool sums_tokens(const Node& n) const;
  std::optional<Known> constant(const HostTensor& t) const;
  std::optional<Known> behind(const Node& n) const;
  std::optional<Known> element(const Node& n) const;
  std::optional<double> apply(const Node& n, bool padded) const;

  const Graph& g_;
  const Evaluator& evaluate_;
  TokenPlaces places_;
  std::vector<std::optional<Known>> known_;
  std::vector<Bounds> bounds_;
};

// Whether, and where, a value depends on the contents of padded positions.
struct Reach {
  // clean: not at all; token: only at padded positions of `form`; mixed: anywhere.
  enum Kind : uint8_t { clean, token, mixed };
  Kind kind = clean;
  TokenForm form;
};

struct ReachedInput {
  Reach reach;
  bool finite = false;  // finite with the original padding and with zeros at padded positions
};

// Returns the Reach of the node's outputs, given that of its inputs. A mask's 0 hides only finite values. hides:
// whether the mask of a FusedAttention hides padded keys from all token queries.
Reach output_reach(const Graph& g, const Node& n, TokenPlaces p, const std::vector<ReachedInput>& in,
                   const PlaceValues& known, bool hides);

}  // namespace amp
