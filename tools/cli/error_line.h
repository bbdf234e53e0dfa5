// How a run that failed says so: text for people, then one JSON line for machines, the last of stderr.
#pragma once

#include <exception>
#include <functional>
#include <iosfwd>

#include "base/error.h"

namespace amp::cli {

// "error: FACT", places and hint on lines of their own, then {"id":..,"exit":..,"error":..,"where":..,"hint":..}; not
// the latter on std::cerr where that is a terminal.
void print_error_line(std::ostream& out, const Error& e);

// Runs body and returns the process's exit code: body's own, or that of the error it threw, printed to err. Foreign
// exceptions are ours to explain: no memory exits 9, anything else 1.
int guarded(std::ostream& err, const std::function<int()>& body);

}  // namespace amp::cli
