// Ranks as processes. Rank 0 broadcasts its settings and file checksums; each rank compares them with its own and names
// the first differences. Then rank 0 broadcasts the checkpoint that it resumes from.
#include "run/prepare/processes.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "run/prepare/calibrate_plan.h"
#include "run/prepare/prepared_run.h"
#include "run/spec/spec.h"
#include "run/version.h"
#include "trainer/comm/tensor_bytes.h"

namespace amp {

namespace {

std::string pack(const std::optional<Checkpoint>& c) {
  nlohmann::json j;
  if (c) {
    j = {{"step", c->step}, {"state", c->state}, {"hashes", c->hashes}, {"tensors", nlohmann::json::object()}};
    for (const auto& [name, t] : c->tensors) j["tensors"][name] = tensor_to_json(t);
  }
  std::string out;
  nlohmann::json::to_cbor(j, out);
  return out;
}

std::optional<Checkpoint> unpack(const std::string& bytes) {
  const nlohmann::json j = nlohmann::json::from_cbor(bytes);
  if (j.is_null()) return {};
  Checkpoint c;
  c.step = j.at("step").get<int64_t>();
  c.state = j.at("state").get<std::string>();
  c.hashes = j.at("hashes").get<std::map<std::string, std::string>>();
  for (const auto& [name, t] : j.at("tensors").items()) c.tensors[name] = tensor_from_json(t);
  return c;
}

}  // namespace

RunSpec with_processes(const RunSpec& given, const Host& host) {
  RunSpec spec = given;
  if (host.ranks->size() == 1) return spec;
  if (spec.distribution.ranks > 1)
    fail(Exit::usage, "E_RANKS_SETTING",
         cat("`ranks` ", spec.distribution.ranks, " in each of ", host.ranks->size(), " processes"),
         "leave `ranks` out: every process is a rank");
  if (measures_plan(spec.precision))
    fail(Exit::usage, "E_RANKS_SETTING", "a precision plan is measured by one process",
         "measure it with the verb 'plan', and name it with `precision_plan`");
  spec.distribution.ranks = host.ranks->size();
  return spec;
}

void share_start(PreparedRun& run) {
  Communicator& ranks = *run.host.ranks;
  nlohmann::json mine = run.config.fixed;
  mine["version"] = program_version();
  std::string bytes;
  nlohmann::json::to_cbor(mine, bytes);
  ranks.broadcast(bytes, 0);
  const nlohmann::json first = nlohmann::json::from_cbor(bytes);
  std::string differs;
  for (const auto& [name, value] : first.items()) {
    if (mine.value(name, nlohmann::json()) != value)
      differs += cat(differs.empty() ? "" : "; ", name, ": ", mine.value(name, nlohmann::json()).dump(), ", of rank 0 ",
                     value.dump());
  }
  double any[] = {differs.empty() ? 0.0 : 1.0};
  ranks.all_reduce(std::span<double>(any), Reduction::max);
  if (any[0] > 0)
    fail(Exit::distributed, "E_RANKS",
         differs.empty() ? "another rank was given another run"
                         : cat("rank ", ranks.rank(), " was given another run: ", differs),
         "start every rank with the same program, files and settings");
  bytes = pack(run.folder ? run.folder->checkpoint() : std::nullopt);
  ranks.broadcast(bytes, 0);
  if (!ranks.is_root()) run.checkpoint = unpack(bytes);
}

}  // namespace amp
