// Data parallel training: the replicas of a run, each with a Session and a Trainer of its own. The first one is that of
// the calling thread; of several (--ranks N) the others are threads that say nothing and write nothing.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "run/prepare/prepare.h"

namespace amp {

class Replicas {
 public:
  // They go on from the checkpoint that the run's folder has now. Where ranks are processes, the others are not here.
  Replicas(PreparedRun& run, const SessionOptions& options, const StopSignals& stop);

  // Trains. keep: is given the trainer of the first rank, ready to run, and keeps it. What goes wrong on any rank ends
  // all of them and is thrown here.
  TrainResult train(Session& first, const std::function<Trainer&(std::unique_ptr<Trainer>)>& keep);

  TrainResult follow();  // of a process that is not the first

 private:
  std::unique_ptr<Trainer> trainer(Session& session, TrainerConfig config) const;
  TrainResult follow(Communicator& rank, const Tensors& batch) const;

  PreparedRun& run_;
  SessionOptions options_;
  const StopSignals& stop_;
  std::optional<Checkpoint> checkpoint_;
};

}  // namespace amp
