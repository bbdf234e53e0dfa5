// The mask value from which on a key counts as hidden from a query.
#pragma once

namespace amp {

// A value of at most this, added to a score or replacing it, hides the key from queries whose scores differ by at
// most 9,000, because e^-104 is 0 in float32. BERT uses this fill. Larger fills (-1000) are not recognized as masks.
// A graph does not show whether scores are that close. So trainer/compile/padding_guard.h compares with the padded
// graph in training and evaluation.
constexpr double kHiddenScore = -10000;

}  // namespace amp
