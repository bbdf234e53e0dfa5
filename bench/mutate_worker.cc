// Runs the program many times for bench/mutate.py in forked children, without loading it each time. Every line of
// standard input is a command with words separated by tabs. The command's stderr goes to a file. The reply is one line
// with the wait status, the seconds of processor time and the peak resident KiB.
//
//   mutate_worker STDERR_FILE WALL_SECONDS ADDRESS_SPACE_MB
#include <fcntl.h>
#include <onnx/defs/schema.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "tools/cli/error_line.h"
#include "tools/cli/options.h"
#include "tools/run_verb.h"

namespace {

[[noreturn]] void run(std::vector<std::string>& words, const char* err, unsigned wall, rlim_t address_mb) {
  const int to = ::open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600), none = ::open("/dev/null", O_RDWR);
  ::dup2(none, 0);
  ::dup2(none, 1);
  ::dup2(to, 2);
  const rlimit space{address_mb << 20, address_mb << 20}, core{0, 0};
  ::setrlimit(RLIMIT_AS, &space);
  ::setrlimit(RLIMIT_CORE, &core);
  ::alarm(wall);
  std::vector<char*> argv{const_cast<char*>("onnx-amp-finetune")};
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const int code = amp::cli::guarded(std::cerr, [&] {
    return amp::run_verb(amp::cli::parse_command_line(static_cast<int>(argv.size()) - 1, argv.data(), environ));
  });
  std::cout.flush();
  std::exit(code);
}

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  onnx::OpSchemaRegistry::Schema("Add", 13, "");  // loads ONNX's operator schemas once, before the forks
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<std::string> words;
    for (size_t at = 0; at <= line.size();) {
      const size_t end = std::min(line.find('\t', at), line.size());
      words.push_back(line.substr(at, end - at));
      at = end + 1;
    }
    const pid_t child = ::fork();
    if (child == 0) run(words, argv[1], static_cast<unsigned>(std::atoi(argv[2])), std::strtoull(argv[3], nullptr, 10));
    int status = 0;
    rusage used{};
    if (child < 0 || ::wait4(child, &status, 0, &used) < 0) return 1;
    std::printf("%d %.3f %ld\n", status, seconds(used.ru_utime) + seconds(used.ru_stime), used.ru_maxrss);
    std::fflush(stdout);
  }
  return 0;
}
