// Reads rank, number of ranks and rank 0's endpoint from the environment variables of launchers without MPI.
//
//   torchrun, or set by hand   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
//                              (torchrun itself listens at MASTER_PORT; the program uses MASTER_PORT + 1000 then)
//   srun                       SLURM_PROCID, SLURM_STEP_NUM_TASKS; MASTER_ADDR, or the first node of
//                              SLURM_STEP_NODELIST; MASTER_PORT, or a port derived from job and step, so that several
//                              jobs on one node use different ones
//
// The program uses only Slurm's step variables, because only srun sets them. SLURM_NTASKS and SLURM_PROCID also exist
// in batch scripts and in the shell of salloc, where a program that is started without srun is a single process.
// SLURM_LAUNCH_NODE_IPADDR is the host of the srun command, possibly a login node. (srun(1), sbatch(1); Slurm's
// src/common/env.c.)
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace amp {

struct TcpEndpoint {
  int rank = 0, size = 1;
  std::string host;  // host of rank 0: a name or an IPv4 address
  int port = 0;
  std::string job;  // the launcher's job id; ranks of other jobs are refused. Empty: unknown
};

using Environment = std::function<const char*(const char* name)>;

// Returns the endpoint. Empty if there is no launcher, or if it started a single process. Throws E_FLAG_VALUE for
// invalid variables.
std::optional<TcpEndpoint> tcp_endpoint(const Environment& environment);
std::optional<TcpEndpoint> tcp_endpoint();  // from this process's environment

// Returns whether torchrun started this process. The variables of an outer launcher that started torchrun are then
// ignored.
bool started_by_torchrun();

// Returns the first host of a node list: "gpu07" for "gpu[07-10,12],login1".
std::string first_host(const std::string& list);

}  // namespace amp
