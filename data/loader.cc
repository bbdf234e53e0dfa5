#include "data/loader.h"

#include <chrono>

namespace amp {

Sampler make_sampler(const Dataset& dataset, const SamplerOptions& options) {
  return {dataset.size(), dataset.lengths(), options, dataset.buckets()};
}

LoadedWindow load_window(const Dataset& dataset, const Window& window) {
  LoadedWindow w;
  w.at = window.at;
  w.next = window.next;
  w.first = window.first;
  w.all_rows = window.samples;
  w.per_epoch = window.per_epoch;
  w.last_of_epoch = window.last_of_epoch;
  for (const std::vector<int64_t>& samples : window.micro) {
    w.batches.push_back(dataset.training_batch(samples, window.at.epoch));
    w.rows += w.batches.back().rows;
    w.valid_items += w.batches.back().valid_items;
    w.tokens += w.batches.back().tokens;
  }
  return w;
}

WindowLoader::WindowLoader(const Dataset& dataset, Sampler sampler, int64_t max_epochs, size_t ahead)
    : dataset_(dataset), sampler_(std::move(sampler)), max_epochs_(max_epochs) {
  if (ahead > 0) prefetch_ = std::make_unique<Prefetch<LoadedWindow>>([this] { return make(); }, ahead);
}

std::optional<LoadedWindow> WindowLoader::make() {
  if (max_epochs_ > 0 && sampler_.state().epoch >= max_epochs_) return std::nullopt;
  return load_window(dataset_, sampler_.next());
}

std::optional<LoadedWindow> WindowLoader::next() {
  const auto asked = std::chrono::steady_clock::now();
  std::optional<LoadedWindow> w = prefetch_ ? prefetch_->next() : make();
  if (w) w->waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - asked).count();
  return w;
}

}  // namespace amp
