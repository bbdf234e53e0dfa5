// Parses the environment variables of launchers; tcp_endpoint.h lists them.

#include "trainer/comm/tcp_endpoint.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace amp {

namespace {

constexpr int kMostRanks = 65536, kMostPort = 65535;

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  std::string text(const char* name) const {
    const char* const value = environment_(name);
    return value ? value : "";
  }
  bool has(const char* name) const { return !text(name).empty(); }

  int64_t number(const char* name, int64_t least, int64_t most) const {
    const std::string value = text(name);
    int64_t n = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
    if (error != std::errc() || end != value.data() + value.size() || n < least || n > most)
      refuse(cat(name, "=", printable(value), ": expected a whole number from ", least, " to ", most));
    return n;
  }

  [[noreturn]] static void refuse(const std::string& fact) {
    fail(Exit::usage, "E_FLAG_VALUE", fact,
         "a process that is one of several has RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (docs/scaling.md); unset "
         "WORLD_SIZE to train in one process");
  }

 private:
  const Environment& environment_;
};

std::string master_host(const Variables& v) {
  std::string host = v.text("MASTER_ADDR");
  if (host.find_first_of(": \t\n") != std::string::npos)
    Variables::refuse(cat("MASTER_ADDR=", printable(host), ": expected a host's name or its IPv4 address"));
  return host;
}

int master_port(const Variables& v) { return static_cast<int>(v.number("MASTER_PORT", 1, kMostPort)); }

std::optional<TcpEndpoint> by_torchrun(const Variables& v) {
  TcpEndpoint place;
  place.size = static_cast<int>(v.number("WORLD_SIZE", 1, kMostRanks));
  if (place.size == 1) return {};
  for (const char* name : {"RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    if (!v.has(name)) Variables::refuse(cat("WORLD_SIZE=", place.size, ", but there is no ", name));
  }
  place.rank = static_cast<int>(v.number("RANK", 0, kMostRanks));
  if (place.rank >= place.size)
    Variables::refuse(cat("RANK=", place.rank, " of WORLD_SIZE=", place.size, ": the last one is ", place.size - 1));
  place.host = master_host(v);
  place.port = master_port(v);
  place.job = v.text("TORCHELASTIC_RUN_ID");
  // torchrun itself listens at MASTER_PORT for PyTorch's key-value store. So rank 0 of this run uses MASTER_PORT +
  // 1000, or MASTER_PORT - 1000 if the sum is not a valid port.
  if (v.text("TORCHELASTIC_USE_AGENT_STORE") == "True") place.port += place.port + 1000 > kMostPort ? -1000 : 1000;
  return place;
}

std::optional<TcpEndpoint> by_slurm(const Variables& v) {
  // Numbers from this one on are steps that srun did not create: batch scripts, shells of salloc.
  constexpr int64_t kSpecialSteps = 0xfffffff0;
  TcpEndpoint place;
  place.size = static_cast<int>(v.number("SLURM_STEP_NUM_TASKS", 1, kMostRanks));
  const int64_t step = v.has("SLURM_STEP_ID") ? v.number("SLURM_STEP_ID", 0, UINT32_MAX) : 0;
  if (place.size == 1 || step >= kSpecialSteps) return {};
  place.rank = static_cast<int>(v.number("SLURM_PROCID", 0, place.size - 1));
  place.job = cat(v.text("SLURM_JOB_ID"), ".", step);
  place.host = v.has("MASTER_ADDR") ? master_host(v) : first_host(v.text("SLURM_STEP_NODELIST"));
  if (place.host.empty()) Variables::refuse("there is neither SLURM_STEP_NODELIST nor MASTER_ADDR");
  // Ports from 16384 to 32767 are below the range of ephemeral ports.
  const auto own_port = [&] { return 16384 + (v.number("SLURM_JOB_ID", 0, UINT32_MAX) * 7 + step) % 16384; };
  place.port = v.has("MASTER_PORT") ? master_port(v) : static_cast<int>(own_port());
  return place;
}

}  // namespace

std::string first_host(const std::string& list) {
  std::string out;
  for (size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      out += list[i];
      continue;
    }
    const size_t end = list.find(']', i);
    if (end == std::string::npos) return out;
    out += list.substr(i + 1, list.find_first_of("-,]", i) - i - 1);
    i = end;
  }
  return out;
}

std::optional<TcpEndpoint> tcp_endpoint(const Environment& environment) {
  const Variables v(environment);
  // torchrun may itself be a task of srun. Then torchrun's variables are used. If only WORLD_SIZE is set, srun's are
  // used.
  const bool step = v.has("SLURM_STEP_NUM_TASKS") && v.has("SLURM_PROCID");
  if (v.has("WORLD_SIZE") && (v.has("RANK") || !step)) return by_torchrun(v);
  return step ? by_slurm(v) : std::nullopt;
}

bool started_by_torchrun() {
  const char* const run = std::getenv("TORCHELASTIC_RUN_ID");
  return run && *run;
}

std::optional<TcpEndpoint> tcp_endpoint() {
  return tcp_endpoint([](const char* name) { return std::getenv(name); });
}

}  // namespace amp
