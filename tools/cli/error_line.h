// Reports a failure as text for users, or as one JSON line for programs, or as both (base/message.h). The JSON line is
// the last line of stderr.
#pragma once

#include <exception>
#include <functional>
#include <iosfwd>

#include "base/error.h"

namespace amp::cli {

// Prints "error: FACT", the locations (Error::where()) and the hint on separate lines, then
// {"id":..,"exit":..,"error":..,"where":..,"hint":..}. If out is std::cerr, the form of messages decides which of the
// two are printed; without the JSON, a line with the command that explains the error replaces it.
void print_error_line(std::ostream& out, const Error& e);

// Runs body and returns the process's exit code. It is the result of body, or the exit code of its Error, which is
// printed to err. For other exceptions it is 9 for std::bad_alloc and 1 for all others. If there is no memory to print
// an error, it prints a fixed text about that and returns 9.
int guarded(std::ostream& err, const std::function<int()>& body);

// Makes std::terminate() end the process with that text and exit code 9, after temporary files are removed, if its
// reason is std::bad_alloc. Destructors of nlohmann::json allocate memory and must not throw.
void report_termination();

}  // namespace amp::cli
