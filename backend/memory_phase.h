// Adds to an out-of-memory error a description of what was being built.
#pragma once

#include <string>
#include <utility>

#include "base/error.h"

namespace amp {

// Runs f and returns its result. If f throws E_OOM, adds `what` to the message, unless an inner phase has added its
// own.
template <class F>
decltype(auto) in_phase(const std::string& what, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const Error& e) {
    if (e.id() != "E_OOM" || e.fact().rfind("no memory for ", 0) == 0) throw;
    fail(Exit::memory, "E_OOM", cat("no memory for ", what, ": ", e.fact()), e.hint());
  }
}

}  // namespace amp
