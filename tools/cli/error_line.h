// Reports a failure as text for users, as one JSON line for programs, or as both (base/message.h). If there is a JSON
// line, it is the last line of stderr.
#pragma once

#include <exception>
#include <functional>
#include <iosfwd>

#include "base/error.h"

namespace amp::cli {

// Prints "error: FACT", the locations (Error::where()) and the hint on separate lines, then the JSON line
// {"id":..,"exit":..,"error":..,"where":..,"hint":..}. If out is std::cerr, the format of messages decides which of
// the two are printed; without the JSON line, a line names the command that explains the error.
void print_error_line(std::ostream& out, const Error& e);

// Runs body and returns the process's exit code: the result of body, or the exit code of its Error, which is printed
// to err. Other exceptions give 9 for std::bad_alloc, else 1. If there is not enough memory to print an error, a fixed
// text says so, and the exit code is 9.
int guarded(std::ostream& err, const std::function<int()>& body);

// Makes std::terminate() remove temporary files, print that text, and end the process with exit code 9, if its
// reason is std::bad_alloc. This is needed because destructors of nlohmann::json allocate memory and must not throw.
void report_termination();

}  // namespace amp::cli
