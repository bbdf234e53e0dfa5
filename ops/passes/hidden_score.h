// What hides a key from a query.
#pragma once

namespace amp {

// Added to a score or put in its place, it leaves nothing of the key: e^-1000 is 0 in fp32.
constexpr double kHiddenScore = -1000;

}  // namespace amp
