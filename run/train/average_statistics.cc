#include "run/train/average_statistics.h"

#include <algorithm>
#include <cmath>

#include "base/activity.h"
#include "trainer/loop/micro_batches.h"

namespace amp {

namespace {

using Statistics = std::vector<UpdateSpec::Statistic>;

// Returns the statistics after one micro-batch, starting at `from`: keep * from + (1 - keep) * batch statistic.
std::vector<std::vector<double>> moved(Session& session, const Statistics& statistics, const Losses& losses,
                                       const Tensors& batch, const std::vector<std::vector<double>>& from) {
  for (size_t i = 0; i < statistics.size(); ++i) {
    for (size_t k = 0; k < from[i].size(); ++k) statistics[i].committed[k] = static_cast<float>(from[i][k]);
  }
  run_micro_batches(session, losses, {batch}, std::vector<double>(LossAccumulator(losses).seeds(1).size(), 1));
  std::vector<std::vector<double>> out;
  for (const UpdateSpec::Statistic& s : statistics) out.emplace_back(s.staged, s.staged + s.count);
  return out;
}

// Returns 1 - keep of a statistic (see moved()) that was 0 at first. once: its value after one batch; twice: its value
// after the same batch was processed a second time.
double momentum(const std::vector<double>& once, const std::vector<double>& twice) {
  size_t at = 0;
  for (size_t k = 1; k < once.size(); ++k) {
    if (std::abs(once[k]) > std::abs(once[at])) at = k;
  }
  return once.empty() || once[at] == 0 ? 1 : 2 - twice[at] / once[at];
}

}  // namespace

int64_t average_statistics(Session& session, const TrainerConfig& config, const Dataset& data) {
  UpdateSpec spec;
  session.describe(spec);
  const Statistics& statistics = spec.statistics;
  if (statistics.empty()) return 0;
  SamplerOptions options = config.sampler;
  options.ranks = 1;
  options.rank = 0;
  options.accumulation = 1;
  Sampler sampler = make_sampler(data, options);
  std::vector<std::vector<double>> zero, sum;
  for (const UpdateSpec::Statistic& s : statistics) zero.emplace_back(static_cast<size_t>(s.count), 0.0);
  sum = zero;
  std::vector<double> moves;
  const int64_t batches = sampler.windows_per_epoch();
  Activity averaging("averaging running statistics", "batches", batches);
  for (int64_t b = 0; b < batches; ++b) {
    const Tensors batch = to_tensors(load_window(data, sampler.next()).batches.at(0), config.objective.teacher);
    const auto once = moved(session, statistics, config.objective.losses, batch, zero);
    if (moves.empty()) {
      const auto twice = moved(session, statistics, config.objective.losses, batch, once);
      for (size_t i = 0; i < once.size(); ++i) moves.push_back(momentum(once[i], twice[i]));
    }
    for (size_t i = 0; i < once.size(); ++i) {
      for (size_t k = 0; k < once[i].size(); ++k) sum[i][k] += once[i][k];
    }
    averaging.add(1);
  }
  HostTensor params = session.host_params();
  for (size_t i = 0; i < statistics.size(); ++i) {
    const Chunk& c = session.layout().chunks()[static_cast<size_t>(statistics[i].slot)];
    for (size_t k = 0; k < sum[i].size(); ++k) {
      const double mean = sum[i][k] / (moves[i] * static_cast<double>(batches));
      params.as_mutable<float>()[static_cast<size_t>(c.offset) + k] = static_cast<float>(mean);
    }
  }
  session.set_params(params);
  return batches;
}

}  // namespace amp
