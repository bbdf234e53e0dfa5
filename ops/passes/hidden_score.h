// The score that hides a key from a query.
#pragma once

namespace amp {

// Added to a score or put in its place, it hides the key from any query whose scores lie within 9,000 of each other:
// e^-104 is 0 in float32. BERT's own fill. Weaker fills (-1000) are not taken for masks. No graph proves that scores
// are that close, so trainer/compile/padding_guard.h compares with the padded graph in training and in evaluation.
constexpr double kHiddenScore = -10000;

}  // namespace amp
