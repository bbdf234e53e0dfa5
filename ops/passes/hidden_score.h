// The mask value that hides a key from a query.
#pragma once

namespace amp {

// Added to a score or replacing it, it hides the key from queries whose scores differ by at most 9,000, because
// e^-104 is 0 in float32. BERT uses this fill. Weaker fills (-1000) are not recognized as masks. No graph proves
// that scores are that close, so trainer/compile/padding_guard.h compares with the padded graph in training and
// evaluation.
constexpr double kHiddenScore = -10000;

}  // namespace amp
