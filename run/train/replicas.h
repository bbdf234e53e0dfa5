// Data parallel training: the replicas of a run, each with a Session and a Trainer. The first replica runs on the
// calling thread. With --ranks N the others are threads that log and write nothing.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "run/prepare/prepare.h"

namespace amp {

class Replicas {
 public:
  // Resumes from the checkpoint of the run's folder, if there is one. If ranks are processes, this object holds only
  // this process's replica.
  Replicas(PreparedRun& run, const SessionOptions& options, const StopSignals& stop);

  // Trains. keep() receives and stores the first rank's trainer before it runs. An error on any rank ends all of them
  // and is thrown here.
  TrainResult train(Session& first, const std::function<Trainer&(std::unique_ptr<Trainer>)>& keep);

  TrainResult follow();  // for processes other than the first

 private:
  std::unique_ptr<Trainer> trainer(Session& session, TrainerConfig config) const;
  TrainResult follow(Communicator& rank, const Tensors& batch) const;

  PreparedRun& run_;
  SessionOptions options_;
  const StopSignals& stop_;
  std::optional<Checkpoint> checkpoint_;
};

}  // namespace amp
