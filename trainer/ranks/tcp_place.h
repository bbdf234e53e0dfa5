// What a launcher without MPI says to each process by environment variables: which rank it is, of how many, and where
// the first one listens.
//
//   torchrun, and who sets the same by hand   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
//                                             (torchrun itself listens at MASTER_PORT: there it is 1000 more)
//   srun                                      SLURM_PROCID, SLURM_STEP_NUM_TASKS; MASTER_ADDR or the first node
//                                             of SLURM_STEP_NODELIST; MASTER_PORT or one made of job and step, so
//                                             that several on one node keep apart
//
// Of Slurm's variables those of the step count, which srun alone sets. SLURM_NTASKS and SLURM_PROCID are there in a
// batch script, too, and in the shell of salloc: a program that is started in these without srun is alone.
// SLURM_LAUNCH_NODE_IPADDR is where srun was called, which may be a login node. (srun(1), sbatch(1); Slurm's
// src/common/env.c.)
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace amp {

struct TcpPlace {
  int rank = 0, size = 1;
  std::string host;  // of rank 0: a name, or an IPv4 address
  int port = 0;
  std::string job;  // as the launcher calls it; ranks of another one are strangers. Empty: it does not say
};

using Environment = std::function<const char*(const char* name)>;

// None: no launcher, or one that started a single process. E_FLAG_VALUE for variables that mean nothing.
std::optional<TcpPlace> tcp_place(const Environment& environment);
std::optional<TcpPlace> tcp_place();  // this process's

// Below torchrun the variables of an outer launcher, which started torchrun itself, mean nothing.
bool started_by_torchrun();

// The first host of "gpu[07-10,12],login1": "gpu07".
std::string first_host(const std::string& list);

}  // namespace amp
