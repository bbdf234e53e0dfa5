// Random directions come from Philox, indexed by seed, step, slot and element, so they are the same on all ranks and
// after a resume. The Session computes the Hessian-vector products; this file provides directions and seeds.

#include "trainer/loop/curvature.h"

#include <cmath>
#include <numbers>

#include "base/philox.h"
#include "base/text.h"
#include "trainer/losses/loss.h"

namespace amp {

namespace {

// Loss terms that only provide seeds. Their sums are discarded, because the training pass of the same step adds them.
class SeedTerms final : public LossTerms {
 public:
  SeedTerms(Device& device, const std::vector<double>& seeds) : device_(device), seeds_(seeds) {}
  void seed(size_t i, const Tensor& input) override {
    const HostTensor value = HostTensor::scalar<double>(seeds_.at(i)).cast(input.dtype);
    device_.upload(input.data, value.data(), value.bytes());
  }
  void add_term(size_t, const Tensor&) override {}

 private:
  Device& device_;
  const std::vector<double>& seeds_;
};

constexpr uint64_t kCurvatureStream = 0x48757463;  // an RNG stream id that the graph's random nodes do not use

}  // namespace

HostTensor draw_direction(uint64_t seed, int64_t step, int slot, const Dims& dims, bool gaussian) {
  HostTensor out = HostTensor::empty(DType::f32, dims);
  float* const v = out.as_mutable<float>();
  const int64_t n = out.numel();
  const uint64_t high = kCurvatureStream << 32 ^ static_cast<uint64_t>(step), stream = static_cast<uint64_t>(slot)
                                                                                       << 40;
  const int64_t per_block = gaussian ? 4 : 128;
  for (int64_t block = 0; block * per_block < n; ++block) {
    const PhiloxBlock r = philox(seed, high, stream | static_cast<uint64_t>(block));
    for (int64_t k = 0; k < per_block && block * per_block + k < n; ++k) {
      float& x = v[block * per_block + k];
      if (!gaussian) {
        x = (r.v[k / 32] >> (k % 32) & 1) != 0 ? 1.0f : -1.0f;
        continue;
      }
      // Box-Muller transform: two normal numbers from two random words.
      const double u = 1 - static_cast<double>(philox_uniform(r.v[k / 2 * 2]));
      const double angle = 2 * std::numbers::pi * static_cast<double>(philox_uniform(r.v[k / 2 * 2 + 1]));
      const double radius = std::sqrt(-2 * std::log(u));
      x = static_cast<float>(radius * (k % 2 == 0 ? std::cos(angle) : std::sin(angle)));
    }
  }
  return out;
}

Curvature::Curvature(Session& session, const OptimizerConfig& optimizer)
    : session_(session),
      interval_(static_cast<int64_t>(optimizer.settings.hessian_interval)),
      gaussian_(optimizer.settings.gaussian != 0),
      samples_labels_(optimizer.samples_labels()) {
  session_.need_curvature();
}

void Curvature::require_label_sampling(const Losses& losses) {
  std::vector<std::string> known;
  for (const LossRule& r : loss_rules()) {
    if (r.draw) known.emplace_back(r.name);
  }
  for (const LossSpec& s : losses.parts) {
    if (!loss_rule(s.kind).draw)
      fail(Exit::usage, "E_LOSS",
           cat("the loss ", s.kind,
               " has no labels that could be drawn from the model's outputs, as the update rule needs"),
           cat("`optimizer` sophia_h, or a loss of: ", join(known, ", ")));
  }
}

void Curvature::estimate(const Losses& losses, const std::vector<Tensors>& batches, const std::vector<int64_t>& before,
                         const std::vector<double>& window_seeds) {
  const std::vector<Chunk>& chunks = session_.layout().chunks();
  std::vector<HostTensor> direction(chunks.size());
  std::vector<double> seeds = window_seeds;
  for (double& s : seeds) s = samples_labels_ ? std::sqrt(s) : s;
  for (size_t i = 0; i < chunks.size() && !samples_labels_; ++i) {
    if (!chunks[i].frozen)
      direction[i] =
          draw_direction(session_.state().seed, session_.state().step, static_cast<int>(i), chunks[i].dims, gaussian_);
  }
  SeedTerms terms(session_.device(), seeds);
  const bool accumulate = batches.size() > 1;
  if (accumulate || batches.empty()) session_.zero_curvature();
  session_.stage_statistics();
  for (size_t m = 0; m < batches.size(); ++m) {
    session_.state().samples_before = before[m];
    if (samples_labels_)
      session_.launch_sampled_labels(losses, batches[m], terms, accumulate);
    else
      session_.launch_diagonal(losses, batches[m], direction, terms, accumulate);
  }
}

}  // namespace amp
