// WindowLoader: makes the batches of the sampler's accumulation steps, ahead of the trainer.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "data/dataset.h"
#include "data/prefetch.h"
#include "data/sampler.h"

namespace amp {

struct LoadedWindow {
  std::vector<Batch> batches;                     // one per micro-batch
  int64_t rows = 0, valid_items = 0, tokens = 0;  // sums over the batches
  std::vector<int64_t> first;                     // see Window::first (data/sampler.h)
  int64_t all_rows = 0;                           // number of samples of this accumulation step on all ranks
  int64_t per_epoch = 1;                          // accumulation steps in this epoch
  // positions of this and the next accumulation step; a checkpoint after this step stores `next`
  SamplerState at, next;
  bool last_of_epoch = false;
  double waited = 0;  // seconds that WindowLoader::next() waited
};

Sampler make_sampler(const Dataset& dataset, const SamplerOptions& options);  // uses the dataset's lengths and buckets
LoadedWindow load_window(const Dataset& dataset, const Window& window);

// Returns the accumulation steps in the sampler's order. The loader is ahead of the trainer, so a checkpoint stores
// LoadedWindow::next of the last step that the trainer took, not the state of the sampler.
class WindowLoader {
 public:
  // dataset must outlive the loader. ahead: number of accumulation steps that a thread prepares in advance; 0: each
  // step is made when it is requested, without a thread. max_epochs 0: endless.
  WindowLoader(const Dataset& dataset, Sampler sampler, int64_t max_epochs = 0, size_t ahead = 2);
  WindowLoader(const WindowLoader&) = delete;
  WindowLoader& operator=(const WindowLoader&) = delete;
  std::optional<LoadedWindow> next();  // returns nullopt after max_epochs

 private:
  std::optional<LoadedWindow> make();
  const Dataset& dataset_;
  Sampler sampler_;
  int64_t max_epochs_;
  std::unique_ptr<Prefetch<LoadedWindow>> prefetch_;
};

}  // namespace amp
