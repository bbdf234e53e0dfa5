// Runs fuzz targets without libFuzzer: run_inputs TARGET [--seconds N] [--runs N] [--seed N] PATH..., where PATH is an
// input or a folder of inputs. Every input is executed once. Then random changes of these inputs are executed for N
// seconds, or until there were N executions, without using coverage. If an execution ends the process or exceeds the
// limit of time or memory, fails and leaves the input in "failed-TARGET".
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <vector>

// The targets; the build renames their functions.
extern "C" int fuzz_onnx(const uint8_t* data, size_t size);
extern "C" int fuzz_shapes(const uint8_t* data, size_t size);
extern "C" int fuzz_external_data(const uint8_t* data, size_t size);
extern "C" int fuzz_onnx_adapters(const uint8_t* data, size_t size);
extern "C" int fuzz_tensors(const uint8_t* data, size_t size);
extern "C" int fuzz_tables(const uint8_t* data, size_t size);
extern "C" int fuzz_questions(const uint8_t* data, size_t size);
extern "C" int fuzz_images(const uint8_t* data, size_t size);
extern "C" int fuzz_tokenizers(const uint8_t* data, size_t size);
extern "C" int fuzz_chat_templates(const uint8_t* data, size_t size);
extern "C" int fuzz_op_lists(const uint8_t* data, size_t size);
extern "C" int fuzz_manifests(const uint8_t* data, size_t size);
extern "C" int fuzz_checkpoints(const uint8_t* data, size_t size);
extern "C" int fuzz_yaml(const uint8_t* data, size_t size);
extern "C" int fuzz_config(const uint8_t* data, size_t size);
extern "C" int fuzz_command_line(const uint8_t* data, size_t size);
extern "C" int fuzz_frames(const uint8_t* data, size_t size);
extern "C" int fuzz_run_folders(const uint8_t* data, size_t size);
extern "C" int fuzz_export_records(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kMostSeconds = 2;                  // limit of processor time of an execution
constexpr unsigned kHangs = 60;                     // seconds after which an execution is ended
constexpr int64_t kMostBytes = int64_t{256} << 20;  // limit of the memory that an execution may add to the process
constexpr size_t kLongest = 64 << 10;               // limit of the length of a changed input

struct Target {
  const char* name;
  int (*run)(const uint8_t*, size_t);
};
const Target kTargets[] = {{"onnx", fuzz_onnx},
                           {"shapes", fuzz_shapes},
                           {"external_data", fuzz_external_data},
                           {"tensors", fuzz_tensors},
                           {"tables", fuzz_tables},
                           {"questions", fuzz_questions},
                           {"images", fuzz_images},
                           {"tokenizers", fuzz_tokenizers},
                           {"chat_templates", fuzz_chat_templates},
                           {"op_lists", fuzz_op_lists},
                           {"manifests", fuzz_manifests},
                           {"checkpoints", fuzz_checkpoints},
                           {"yaml", fuzz_yaml},
                           {"config", fuzz_config},
                           {"command_line", fuzz_command_line},
                           {"frames", fuzz_frames},
                           {"run_folders", fuzz_run_folders},
                           {"export_records", fuzz_export_records},
                           {"onnx_adapters", fuzz_onnx_adapters}};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Measures processor time, which does not depend on other work of the machine.
double processor_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

double children_seconds() {
  rusage use{};
  ::getrusage(RUSAGE_CHILDREN, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

int64_t peak_bytes() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  return int64_t{use.ru_maxrss} << 10;
}

// The input of the running execution, in memory that survives the process which it ends.
struct Current {
  size_t size = 0;
  double slowest = 0;
  int64_t executions = 0, most_bytes = 0;
  char bytes[16 << 20];
};

std::vector<std::string> read_inputs(const std::vector<std::string>& paths) {
  std::vector<std::string> files, out;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) files.push_back(path);
    for (const auto& entry :
         fs::is_directory(path) ? fs::recursive_directory_iterator(path) : fs::recursive_directory_iterator()) {
      if (entry.is_regular_file()) files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());  // the same order on every machine, for --seed
  for (const std::string& file : files) {
    std::ifstream in(file, std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return out;
}

class Mutator {
 public:
  Mutator(std::vector<std::string> inputs, uint64_t seed) : inputs_(std::move(inputs)), random_(seed) {
    std::erase_if(inputs_, [](const std::string& s) { return s.size() > kLongest; });
    if (inputs_.empty()) inputs_.emplace_back();
  }

  std::string next() {
    std::string s = inputs_[below(inputs_.size())];
    for (size_t changes = 1 + below(8); changes > 0; --changes) change(s);
    if (s.size() > kLongest) s.resize(kLongest);
    return s;
  }

 private:
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }

  void change(std::string& s) {
    const std::string& other = inputs_[below(inputs_.size())];
    const size_t at = below(s.size() + 1), length = 1 + below(below(2) == 0 ? 8 : 64);
    switch (below(7)) {
      case 0:
        if (at < s.size()) s[at] = static_cast<char>(s[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < s.size()) s[at] = static_cast<char>(below(256));
        break;
      case 2:
        s.erase(at, length);
        break;
      case 3:  // inserts a part of another input
        s.insert(at, other, below(other.size() + 1), length);
        break;
      case 4:  // repeats a part of the input
        s.insert(at, s.substr(below(s.size() + 1), length));
        break;
      case 5:  // inserts a number, as text or as bytes
        s.insert(at,
                 below(2) == 0 ? std::to_string(number()) : std::string(bytes_of(number()).substr(0, 1 + below(8))));
        break;
      default:  // replaces the end by that of another input
        s.resize(at);
        s += other.substr(below(other.size() + 1));
    }
  }

  int64_t number() {
    constexpr int64_t kSpecial[] = {0,     -1,    1,          127,         128,       255,      256,
                                    32767, 65536, 2147483647, -2147483648, INT64_MAX, INT64_MIN};
    return kSpecial[below(std::size(kSpecial))];
  }
  std::string_view bytes_of(int64_t n) {
    std::memcpy(number_, &n, sizeof n);
    return {number_, sizeof n};
  }

  std::vector<std::string> inputs_;
  std::mt19937_64 random_;
  char number_[8];
};

void execute(const Target& target, const std::string& input, Current& current) {
  current.size = std::min(input.size(), sizeof current.bytes);
  std::memcpy(current.bytes, input.data(), current.size);
  const int64_t before = peak_bytes();
  const double begin = processor_seconds();
  ::alarm(kHangs);
  // A copy of exactly this size, so that tools which watch memory see a read beyond its end.
  const std::vector<uint8_t> copy(input.begin(), input.end());
  target.run(copy.data(), copy.size());
  const double took = processor_seconds() - begin;
  const int64_t added = peak_bytes() - before;
  current.slowest = std::max(current.slowest, took);
  current.most_bytes = std::max(current.most_bytes, added);
  ++current.executions;
  if (took <= kMostSeconds && added <= kMostBytes) return;
  std::cerr << "over the budget: " << took << " s, " << (added >> 20) << " MiB\n";
  std::abort();
}

int usage() {
  std::cerr << "usage: run_inputs TARGET [--seconds N] [--runs N] [--seed N] PATH...\ntargets:";
  for (const Target& t : kTargets) std::cerr << ' ' << t.name;
  std::cerr << '\n';
  return 2;
}

int report(const Target& target, const Current& current, int status, double seconds) {
  std::cout << target.name << ": " << current.executions << " executions in " << seconds << " s ("
            << static_cast<int64_t>(static_cast<double>(current.executions) / children_seconds())
            << " per second of processor time), slowest " << current.slowest << " s, at most "
            << (current.most_bytes >> 20) << " MiB\n";
  if (status == 0) return 0;
  const std::string path = std::string("failed-") + target.name;
  std::ofstream(path, std::ios::binary).write(current.bytes, static_cast<std::streamsize>(current.size));
  std::cout << "failed (" << (WIFSIGNALED(status) ? "signal " : "exit ")
            << (WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)) << "); the input is in " << path << '\n';
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> paths;
  double seconds = 0;
  int64_t runs = 0;
  uint64_t seed = 1;
  const Target* target = nullptr;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--seconds" && i + 1 < argc) {
      seconds = std::stod(argv[++i]);
    } else if (word == "--runs" && i + 1 < argc) {
      runs = std::stoll(argv[++i]);
    } else if (word == "--seed" && i + 1 < argc) {
      seed = std::stoull(argv[++i]);
    } else if (!target) {
      target = std::find_if(std::begin(kTargets), std::end(kTargets), [&](const Target& t) { return t.name == word; });
      if (target == std::end(kTargets)) return usage();
    } else {
      paths.push_back(word);
    }
  }
  if (!target || paths.empty()) return usage();
  void* const at = ::mmap(nullptr, sizeof(Current), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return 2;
  auto& current = *new (at) Current;
  // The parent removes the files of a target that ended its process.
  std::string folder = (::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") + std::string("/run-inputs-XXXXXX");
  if (!::mkdtemp(folder.data())) return 2;
  ::setenv("TMPDIR", folder.c_str(), 1);
  const auto begin = Clock::now();
  const pid_t child = ::fork();
  if (child == 0) {
    const std::vector<std::string> inputs = read_inputs(paths);
    if (inputs.empty()) return 2;
    for (const std::string& input : inputs) execute(*target, input, current);
    Mutator mutator(inputs, seed);
    while (seconds_since(begin) < seconds || current.executions < runs) execute(*target, mutator.next(), current);
    return 0;
  }
  int status = 0;
  const bool ended = child > 0 && ::waitpid(child, &status, 0) == child;
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  if (!ended) return 2;
  return report(*target, current, status, seconds_since(begin));
}
