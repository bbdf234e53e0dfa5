// Data parallel training in one process (a thread per rank) or as one rank of several processes. Each replica has its
// own Session and Trainer; gradients are summed by the Communicator. If a rank throws, the others fail as a
// consequence, and only the first error is rethrown.
#include "run/train/replicas.h"

#include <omp.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "run/spec/spec.h"

namespace amp {

namespace {

// Divides the CPU threads among the replicas. Results do not depend on the number of threads, bit for bit.
class Share {
 public:
  explicit Share(int ranks) : before_(omp_get_max_threads()), each_(std::max(1, before_ / ranks)) { take(); }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  ~Share() { omp_set_num_threads(before_); }
  void take() const { omp_set_num_threads(each_); }  // for the calling thread

 private:
  int before_, each_;
};

// Keeps the first failure of any rank; later failures of other ranks are its consequences.
class FirstFailure {
 public:
  explicit FirstFailure(ThreadGroup& group) : group_(group) {}
  template <class F>
  void guard(int rank, const F& f) {
    try {
      f();
    } catch (const std::exception& e) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      group_.fail(cat("rank ", rank, " failed: ", e.what()));
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  ThreadGroup& group_;
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

Replicas::Replicas(PreparedRun& run, const SessionOptions& options, const StopSignals& stop)
    : run_(run), options_(options), stop_(stop), checkpoint_(run.folder ? run.folder->checkpoint() : run.checkpoint) {}

std::unique_ptr<Trainer> Replicas::trainer(Session& session, TrainerConfig config) const {
  const Dataset* const val = run_.spec.schedule.lr_range_test > 0 ? nullptr : run_.data.val.get();
  auto out = std::make_unique<Trainer>(session, *run_.data.train, val, stop_, std::move(config));
  if (checkpoint_) out->resume(*checkpoint_);
  return out;
}

TrainResult Replicas::follow(Communicator& rank, const Tensors& batch) const {
  SessionOptions options = options_;
  options.log = {};
  Session session(run_.graph(), options);
  apply_groups(run_.ready.groups, session.layout());
  session.prepare(run_.config.objective.losses, batch);
  if (run_.host.ranks->size() > 1) release_parameters(run_.ready.model);  // with threads the replicas share the model
  TrainerConfig config = run_.config;
  config.ranks = &rank;
  config.sampler.rank = rank.rank();
  config.log = {};
  config.on_progress = nullptr;
  config.on_step = nullptr;
  config.stop = nullptr;
  return trainer(session, std::move(config))->run();
}

TrainResult Replicas::follow() { return follow(*run_.host.ranks, first_batch(run_)); }

TrainResult Replicas::train(Session& first, const std::function<Trainer&(std::unique_ptr<Trainer>)>& keep) {
  const auto size = static_cast<int>(run_.config.sampler.ranks);
  if (size == 1 || run_.host.ranks->size() > 1) {
    auto alone = trainer(first, run_.config);
    checkpoint_.reset();  // frees its memory
    return keep(std::move(alone)).run();
  }
  if (!first.device().traits().host_memory)
    fail(Exit::usage, "E_RANKS_SETTING",
         cat("`ranks` ", size, " are threads that compute on the CPU; GPUs need a process each"),
         cat("mpirun -np ", size, " instead of `ranks` ", size, ", or `device` cpu"));
  const Tensors batch = first_batch(run_);
  const Share share(size);
  ThreadGroup group(size);
  FirstFailure failure(group);
  std::vector<std::thread> threads;
  TrainResult result;
  failure.guard(0, [&] {
    for (int r = 1; r < size; ++r) {
      threads.emplace_back([&, r] {
        share.take();
        failure.guard(r, [&] { follow(group.rank(r), batch); });
      });
    }
    TrainerConfig config = run_.config;
    config.ranks = &group.rank(0);
    result = keep(trainer(first, std::move(config))).run();
  });
  for (std::thread& t : threads) t.join();
  failure.rethrow();
  return result;
}

}  // namespace amp
