// What padded places reach in a graph: a small abstract interpretation over its nodes, the structural half of padding
// removal (ops/passes/padding.h). Nothing here looks at a batch; what it takes for granted of one (the mask's ones and
// zeros, ignored labels) trainer/compile/packing.h looks at, batch by batch.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "ops/passes/value_bounds.h"

namespace amp {

// Where a value's tokens are: dims (batch, .., length, ..) with length at `axis`; flat: (batch length, ..).
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

// One functor, element by element, of inputs that broadcast.
bool is_elementwise(const Node& n);

// The form behind a node that moves whole tokens and leaves each as it is, or computes within each, when its first
// input has form f: Reshape, Transpose, Expand, Slice, reductions over other axes. Nothing where it may mix tokens.
std::optional<TokenForm> form_behind(const Graph& g, const Node& n, TokenPlaces p, TokenForm f);

// Values that are the same at every padded place, or everywhere, and what they are: functions of the mask (1 and 0), of
// labels that are ignored where padding is, and of constants.
class PlaceValues {
 public:
  struct Known {
    bool uniform = false;                // one number throughout: `padded`
    TokenForm form;                      // else
    std::optional<double> real, padded;  // at the places of tokens, of padding
  };
  // inputs: graph inputs (batch, length) with what they hold.
  PlaceValues(const Graph& g, const Evaluator& evaluator, TokenPlaces p, const std::map<std::string, Known>& inputs);
  const Known* at(ValueId v) const;
  // Whether v, seen as of `rank` dims, is x at padded places of form f.
  bool padded_is(ValueId v, TokenForm f, size_t rank, double x) const;
  // Of the graph as it is, with its padding.
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

// How a value changes when the contents of padded places do.
struct Reach {
  enum Kind : uint8_t { clean, token, mixed };  // not; at padded places of `form` alone; anywhere
  Kind kind = clean;
  TokenForm form;
};

struct ReachedInput {
  Reach reach;
  bool finite = false;  // with padding, and with zeros at padded places
};

// What the node's outputs become, given its inputs. A mask's 0 hides what is finite, nothing else. hides: whether the
// mask of a FusedAttention hides padded keys from every query that is a token.
Reach reach_behind(const Graph& g, const Node& n, TokenPlaces p, const std::vector<ReachedInput>& in,
                   const PlaceValues& known, bool hides);

}  // namespace amp
