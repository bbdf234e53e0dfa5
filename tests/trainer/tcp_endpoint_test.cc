// Environments of launchers (torchrun, Slurm): this process's rank, and the address at which rank 0 listens.
#include "trainer/comm/tcp_endpoint.h"

#include <catch2/catch_all.hpp>
#include <map>
#include <string>

#include "tests/errors.h"

using namespace amp;

namespace {

using Variables = std::map<std::string, std::string>;

std::optional<TcpEndpoint> place_of(const Variables& variables) {
  return tcp_endpoint([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Variables with(Variables all, const Variables& more) {
  for (const auto& [name, value] : more) all[name] = value;
  return all;
}

const Variables kTorchrun{{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
const Variables kSrun{{"SLURM_PROCID", "3"},
                      {"SLURM_NTASKS", "8"},
                      {"SLURM_STEP_NUM_TASKS", "8"},
                      {"SLURM_STEP_ID", "1"},
                      {"SLURM_JOB_ID", "4711"},
                      {"SLURM_STEP_NODELIST", "gpu[07-10,12],login1"},
                      {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}};

}  // namespace

TEST_CASE("torchrun's variables", "[ranks][tcp]") {
  const std::optional<TcpEndpoint> p = place_of(kTorchrun);
  REQUIRE(p);
  CHECK(p->rank == 2);
  CHECK(p->size == 4);
  CHECK(p->host == "node7");
  CHECK(p->port == 29500);
  CHECK(p->job.empty());
  // torchrun's agent already uses MASTER_PORT for its store.
  const Variables agent = with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RUN_ID", "blue"}});
  CHECK(place_of(agent)->port == 30500);
  CHECK(place_of(agent)->job == "blue");
  CHECK(place_of(with(agent, {{"MASTER_PORT", "65000"}}))->port == 64000);
  CHECK(place_of(with(agent, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}))->port == 29500);
}

TEST_CASE("a process that nobody started as one of several is alone", "[ranks][tcp]") {
  CHECK_FALSE(place_of({}));
  CHECK_FALSE(place_of({{"RANK", "3"}}));  // a variable that other programs may use for another purpose
  CHECK_FALSE(place_of({{"WORLD_SIZE", "1"}, {"RANK", "0"}}));
  CHECK_FALSE(place_of({{"WORLD_SIZE", ""}}));
  // Batch scripts and the shell of salloc have variables with the number of tasks that the job may start.
  CHECK_FALSE(place_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "4711"}}));
  CHECK_FALSE(place_of(with(kSrun, {{"SLURM_STEP_ID", "4294967290"}})));
  CHECK_FALSE(place_of(with(kSrun, {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}})));
}

TEST_CASE("srun's variables", "[ranks][tcp]") {
  const std::optional<TcpEndpoint> p = place_of(kSrun);
  REQUIRE(p);
  CHECK(p->rank == 3);
  CHECK(p->size == 8);
  CHECK(p->host == "gpu07");  // not the host where srun was called
  CHECK(p->job == "4711.1");
  CHECK(p->port >= 1024);
  CHECK(p->port < 32768);
  CHECK(place_of(with(kSrun, {{"SLURM_PROCID", "0"}}))->port == p->port);
  CHECK(place_of(with(kSrun, {{"SLURM_STEP_ID", "2"}}))->port != p->port);
  CHECK(place_of(with(kSrun, {{"SLURM_JOB_ID", "4712"}}))->port != p->port);
  const Variables named = with(kSrun, {{"MASTER_ADDR", "gpu12-ib"}, {"MASTER_PORT", "12345"}});
  CHECK(place_of(named)->host == "gpu12-ib");
  CHECK(place_of(named)->port == 12345);
  // Scripts that set WORLD_SIZE leave the ranks to srun. torchrun started by srun sets its own ranks.
  CHECK(place_of(with(named, {{"WORLD_SIZE", "8"}}))->rank == 3);
  CHECK(place_of(with(kSrun, kTorchrun))->rank == 2);
}

TEST_CASE("the first host of Slurm's lists", "[ranks][tcp]") {
  CHECK(first_host("gpu07") == "gpu07");
  CHECK(first_host("gpu07,gpu08") == "gpu07");
  CHECK(first_host("gpu[07-10,12],login1") == "gpu07");
  CHECK(first_host("gpu[3,5]-ib") == "gpu3-ib");
  CHECK(first_host("rack[1-4]node[00-31]") == "rack1node00");
  CHECK(first_host("a[") == "a");
  CHECK(first_host("").empty());
}

TEST_CASE("variables that mean nothing are refused by name", "[ranks][tcp]") {
  const auto refused = [](const Variables& variables, const std::string& part) {
    test::expect_error(
        "E_FLAG_VALUE", part, [&] { place_of(variables); }, Exit::usage);
  };
  refused(with(kTorchrun, {{"WORLD_SIZE", "2"}, {"RANK", "3"}}), "RANK=3 of WORLD_SIZE=2");
  refused(with(kTorchrun, {{"WORLD_SIZE", "2"}, {"RANK", "2"}}), "RANK=2 of WORLD_SIZE=2");
  refused(with(kTorchrun, {{"RANK", "-1"}}), "RANK=-1");
  refused(with(kTorchrun, {{"RANK", "1.5"}}), "RANK=1.5");
  refused(with(kTorchrun, {{"WORLD_SIZE", "0"}}), "WORLD_SIZE=0");
  refused(with(kTorchrun, {{"WORLD_SIZE", "four"}}), "WORLD_SIZE=four");
  refused(with(kTorchrun, {{"MASTER_PORT", "http"}}), "MASTER_PORT=http");
  refused(with(kTorchrun, {{"MASTER_PORT", "0"}}), "MASTER_PORT=0");
  refused(with(kTorchrun, {{"MASTER_PORT", "65536"}}), "MASTER_PORT=65536");
  refused(with(kTorchrun, {{"MASTER_ADDR", "::1"}}), "MASTER_ADDR=::1");
  for (const char* name : {"RANK", "MASTER_ADDR", "MASTER_PORT"})
    refused(with(kTorchrun, {{name, ""}}), cat("there is no ", name));
  refused(with(kSrun, {{"SLURM_PROCID", "8"}}), "SLURM_PROCID=8");
  refused(with(kSrun, {{"SLURM_STEP_NODELIST", ""}}), "SLURM_STEP_NODELIST");
  refused(with(kSrun, {{"SLURM_JOB_ID", ""}}), "SLURM_JOB_ID");
}
