// The patterns of find_units(). Each is tried at an anchor node and fills `unit` if it matches.
#pragma once

#include "precision/unit_matcher.h"
#include "precision/units.h"

namespace amp {

bool match_norm(const UnitMatcher& m, int anchor, Unit& unit);  // LayerNorm, RMSNorm and variants, around a Sqrt or Pow
bool match_group_norm(const UnitMatcher& m, int instance_norm, Unit& unit);
bool match_erf_gelu(const UnitMatcher& m, int erf, Unit& unit);
bool match_tanh_gelu(const UnitMatcher& m, int tanh, Unit& unit);
bool match_softplus_where(const UnitMatcher& m, int where, Unit& unit);  // Where(x > 20, x, Softplus(x))
bool match_softplus_log(const UnitMatcher& m, int log, Unit& unit);      // Log(1 + Exp(x))

// Matches MatMul(Mul(q, r), Mul(k, r)), an optional Add of a mask, Softmax, a Where that replaces NaN by 0, and MatMul.
// With a mask the Where is required, else it is optional.
bool match_attention(const UnitMatcher& m, int softmax, Unit& unit);

}  // namespace amp
