// Reports a failure: text for users, then one JSON line for programs, the last line of stderr.
#pragma once

#include <exception>
#include <functional>
#include <iosfwd>

#include "base/error.h"

namespace amp::cli {

// Prints "error: FACT", its places and hint on separate lines, then
// {"id":..,"exit":..,"error":..,"where":..,"hint":..}. The JSON is omitted if out is std::cerr and a terminal.
void print_error_line(std::ostream& out, const Error& e);

// Runs body and returns the process's exit code: body's, or that of the error, which is printed to err. Other
// exceptions: std::bad_alloc exits with 9, all others with 1.
int guarded(std::ostream& err, const std::function<int()>& body);

}  // namespace amp::cli
