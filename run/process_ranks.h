// The ranks that a launcher (mpirun, srun) started as processes; one_rank() where none did.
#pragma once

#include "trainer/ranks/mpi.h"

namespace amp {

class Processes {
 public:
  Processes() : ranks_(started_by_mpi() ? start_mpi() : one_rank()) {}
  Collective& ranks() const { return ranks_; }
  void end() const { end_mpi(); }  // a process that fails leaves without

 private:
  Collective& ranks_;
};

}  // namespace amp
