// WindowLoader: the sampler's windows with their batches made, ahead of the trainer.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "data/dataset.h"
#include "data/prefetch.h"
#include "data/sampler.h"

namespace amp {

struct LoadedWindow {
  std::vector<Batch> batches;                     // a micro-batch each
  int64_t rows = 0, valid_items = 0, tokens = 0;  // of all of them
  std::vector<int64_t> first;                     // Window's
  int64_t all_rows = 0;                           // of all ranks
  int64_t per_epoch = 1;                          // windows of its epoch
  SamplerState at, next;                          // a checkpoint after this window keeps `next`
  bool last_of_epoch = false;
  double waited = 0;  // seconds, by who took it from a WindowLoader
};

Sampler make_sampler(const Dataset& dataset, const SamplerOptions& options);  // by its lengths and buckets
LoadedWindow load_window(const Dataset& dataset, const Window& window);

// What the trainer has taken decides where a resumed run goes on (LoadedWindow::next), not how far the loader is ahead.
class WindowLoader {
 public:
  // dataset must outlive the loader. ahead: windows kept ready; 0 makes each one when asked, without a thread.
  // max_epochs: 0 is endless.
  WindowLoader(const Dataset& dataset, Sampler sampler, int64_t max_epochs = 0, size_t ahead = 2);
  WindowLoader(const WindowLoader&) = delete;
  WindowLoader& operator=(const WindowLoader&) = delete;
  std::optional<LoadedWindow> next();  // nullopt after max_epochs

 private:
  std::optional<LoadedWindow> make();
  const Dataset& dataset_;
  Sampler sampler_;
  int64_t max_epochs_;
  std::unique_ptr<Prefetch<LoadedWindow>> prefetch_;
};

}  // namespace amp
