#include "tools/cli/error_line.h"

#include <unistd.h>

#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <ostream>
#include <system_error>

#include "base/terminal_text.h"
#include "base/text.h"
#include "tools/cli/flag_text.h"

namespace amp::cli {

void print_error_line(std::ostream& out, const Error& error) {
  const Error e = with_flags(error);
  out << "error: " << printable_lines(e.what()) << '\n';
  if (&out == &std::cerr && ::isatty(STDERR_FILENO)) {
    out << "  more: onnx-amp-finetune explain " << e.id() << '\n';
    return;
  }
  const nlohmann::ordered_json line{{"id", e.id()},
                                    {"exit", static_cast<int>(e.exit())},
                                    {"error", e.fact()},
                                    {"where", join(e.where(), "; ")},
                                    {"hint", e.hint()}};
  // Names from files may contain bytes that are not UTF-8.
  out << printable_json(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) << std::endl;
}

int guarded(std::ostream& err, const std::function<int()>& body) {
  const auto report = [&err](const Error& e) {
    print_error_line(err, e);
    return static_cast<int>(e.exit());
  };
  try {
    return body();
  } catch (const Error& e) {
    return report(e);
  } catch (const std::bad_alloc&) {
    return report(Error(Exit::memory, "E_OOM", "out of memory",
                        "a smaller `batch_size` with more `gradient_accumulation_steps`"));
  } catch (const std::system_error& e) {
    const bool limit = e.code() == std::errc::resource_unavailable_try_again;  // std::thread's, if it cannot start
    return report(
        limit ? Error(Exit::memory, "E_THREADS", cat("a thread cannot be started: ", e.what()),
                      "raise the limit of processes (ulimit -u, pids.max of the control group) or of memory")
              : Error(Exit::internal, "E_INTERNAL", e.what(), "this is a bug of onnx-amp-finetune: please report it"));
  } catch (const std::exception& e) {
    return report(
        Error(Exit::internal, "E_INTERNAL", e.what(), "this is a bug of onnx-amp-finetune: please report it"));
  }
}

}  // namespace amp::cli
