#include "base/limits.h"

namespace amp {

static Limits& process_limits() {
  static Limits l;
  return l;
}

const Limits& limits() { return process_limits(); }
void set_limits(const Limits& l) { process_limits() = l; }

}  // namespace amp
