// The patterns behind find_units: each is asked at one node, its anchor, and fills unit when it matches there.
#pragma once

#include "precision/unit_matcher.h"
#include "precision/units.h"

namespace amp {

bool match_norm(const UnitMatcher& m, int anchor, Unit& unit);  // LayerNorm, RMSNorm and kin, around a Sqrt or Pow
bool match_group_norm(const UnitMatcher& m, int instance_norm, Unit& unit);
bool match_erf_gelu(const UnitMatcher& m, int erf, Unit& unit);
bool match_tanh_gelu(const UnitMatcher& m, int tanh, Unit& unit);
bool match_softplus_where(const UnitMatcher& m, int where, Unit& unit);  // Where(x > 20, x, Softplus(x))
bool match_softplus_log(const UnitMatcher& m, int log, Unit& unit);      // Log(1 + Exp(x))

// Mul(q, r), Mul(k, r), MatMul, Add of a mask, Softmax, 0 for NaN, MatMul: the guard is a must where there is a mask.
bool match_attention(const UnitMatcher& m, int softmax, Unit& unit);

}  // namespace amp
