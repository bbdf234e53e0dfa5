// Implements error_line.h. After an allocation has failed, errors are printed without allocating memory. Otherwise the
// code that handles the exception could throw again, and std::terminate() would end the process by a signal.
#include "tools/cli/error_line.h"

#include <cxxabi.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>
#include <system_error>
#include <typeinfo>

#include "base/activity.h"
#include "base/colors.h"
#include "base/message.h"
#include "base/temporary.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "tools/cli/flag_text.h"

namespace amp::cli {

void print_error_line(std::ostream& out, const Error& error) {
  const Error e = with_flags(error);
  // Each line is written by one write(), because other processes may write to the same pipe.
  const bool of_process = &out == &std::cerr;
  const std::string begin = of_process ? ink(Ink::error) : "", end = of_process ? ink(Ink::none) : "";
  if (!of_process || errors_are_text()) out << cat(begin, "error:", end, " ", printable_lines(e.what()), "\n");
  if (of_process && !errors_are_json()) {
    out << cat("  more: onnx-amp-finetune explain ", begin, e.id(), end, "\n");
    return;
  }
  const nlohmann::ordered_json line{{"id", e.id()},
                                    {"exit", static_cast<int>(e.exit())},
                                    {"error", e.fact()},
                                    {"where", join(e.where(), "; ")},
                                    {"hint", e.hint()}};
  // The handler replaces bytes that are not UTF-8, because names from files may contain such bytes.
  out << cat(printable_json(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)), "\n")
      << std::flush;
}

namespace {

constexpr char kOutOfMemory[] = "error: out of memory\n";
constexpr char kLineBegin[] = R"({"id":"E_OOM","exit":9,"error":"out of memory","where":")";
constexpr char kLineEnd[] = R"(","hint":"a smaller --batch_size with more --gradient_accumulation_steps"})"
                            "\n";

int report(std::ostream& err, const Error& e) {
  print_error_line(err, e);
  return static_cast<int>(e.exit());
}

int report_system(std::ostream& err, const std::system_error& e) {
  if (e.code() == std::errc::not_enough_memory) throw std::bad_alloc();
  // std::thread's constructor throws this error if the thread cannot start.
  if (e.code() == std::errc::resource_unavailable_try_again)
    return report(err, Error(Exit::memory, "E_THREADS", cat("a thread cannot be started: ", e.what()),
                             "raise the limit of processes (ulimit -u, pids.max of the control group) or of memory"));
  return report(err,
                Error(Exit::internal, "E_INTERNAL", e.what(), "this is a bug of onnx-amp-finetune: please report it"));
}

int reported(std::ostream& err, const std::function<int()>& body) {
  try {
    return body();
  } catch (const Error& e) {
    return report(err, e);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::system_error& e) {
    return report_system(err, e);
  } catch (const std::exception& e) {
    return report(
        err, Error(Exit::internal, "E_INTERNAL", e.what(), "this is a bug of onnx-amp-finetune: please report it"));
  }
}

void say(std::string_view text) {
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;  // nothing is left to do
}

std::terminate_handler terminate_before = nullptr;

// Prints the error without allocating memory. rethrow_exception() would allocate, so the exception's type is compared
// instead.
[[noreturn]] void on_termination() {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  if (type && (*type == typeid(std::bad_alloc) || *type == typeid(std::bad_array_new_length))) {
    remove_temporaries();
    if (activity_is_shown()) say("\r\x1b[K");
    if (errors_are_text()) say(kOutOfMemory);
    if (errors_are_json()) {
      say(kLineBegin);
      say("in a function that must not fail");
      say(kLineEnd);
    }
    ::_exit(static_cast<int>(Exit::memory));
  }
  terminate_before();
  std::abort();
}

}  // namespace

int guarded(std::ostream& err, const std::function<int()>& body) {
  try {
    return reported(err, body);
  } catch (const std::bad_alloc&) {
    err.clear();  // printing may have failed for lack of memory and set the error state
    const bool of_process = &err == &std::cerr;
    if (!of_process || errors_are_text()) err << kOutOfMemory;
    if (!of_process || errors_are_json()) err << kLineBegin << kLineEnd << std::flush;
    return static_cast<int>(Exit::memory);
  }
}

void report_termination() { terminate_before = std::set_terminate(on_termination); }

}  // namespace amp::cli
