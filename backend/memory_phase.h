// Names what was being made when memory ran out.
#pragma once

#include <string>
#include <utility>

#include "base/error.h"

namespace amp {

// Runs f; an E_OOM that comes out of it says what it was for. The innermost phase speaks.
template <class F>
decltype(auto) in_phase(const std::string& what, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const Error& e) {
    if (e.id() != "E_OOM" || e.fact().rfind("no memory for ", 0) == 0) throw;
    fail(e.exit(), "E_OOM", cat("no memory for ", what, ": ", e.fact()), e.hint());
  }
}

}  // namespace amp
