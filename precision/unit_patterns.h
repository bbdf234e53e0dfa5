// The patterns that find_units() tries. Each function starts at one node, the anchor, and fills `unit` if it matches.
#pragma once

#include "precision/unit_matcher.h"
#include "precision/units.h"

namespace amp {

bool match_norm(const UnitMatcher& m, int anchor, Unit& unit);  // LayerNorm, RMSNorm and variants, from a Sqrt or Pow
bool match_group_norm(const UnitMatcher& m, int instance_norm, Unit& unit);
bool match_erf_gelu(const UnitMatcher& m, int erf, Unit& unit);
bool match_tanh_gelu(const UnitMatcher& m, int tanh, Unit& unit);
bool match_softplus_where(const UnitMatcher& m, int where, Unit& unit);  // Where(x > 20, x, Softplus(x))
bool match_softplus_log(const UnitMatcher& m, int log, Unit& unit);      // Log(1 + Exp(x))

// Matches MatMul(Mul(q, r), Mul(k, r)), optionally plus a mask; Softmax; a Where that replaces NaN by 0; MatMul with v.
// The Where is required if there is a mask, else it is optional.
bool match_attention(const UnitMatcher& m, int softmax, Unit& unit);

}  // namespace amp
