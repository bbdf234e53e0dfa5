// Builds the tables that the update's kernels read: shards of at most kShard elements of each span with their settings,
// running statistics, units of transformed gradients and bounds of clipping groups.
#include <algorithm>
#include <map>

#include "backend/cuda/update_layout.h"

namespace amp::cuda {

using namespace update_kernels;

namespace {

std::map<int, std::vector<Kept>> by_slot(const std::vector<ParamCache::Copy>& copies) {
  std::map<int, std::vector<Kept>> out;
  for (const ParamCache::Copy& c : copies) out[c.slot].emplace_back(c);
  for (const auto& [slot, all] : out) check(all.size() <= kKept, "a parameter has too many copies");
  return out;
}

}  // namespace

std::vector<Shard> shards_of(const UpdateSpec& spec, const std::vector<ParamCache::Copy>& copies) {
  const auto kept = by_slot(copies);
  const OptimizerConfig& o = spec.optimizer;
  std::vector<Shard> out;
  for (size_t i = 0; i < spec.spans.size(); ++i) {
    const UpdateSpan& s = spec.spans[i];
    const auto mine = kept.find(s.slot);
    for (int64_t at = 0; at < s.count; at += kShard) {
      Shard shard;
      shard.begin = s.begin + at;
      shard.first = at;
      shard.count = static_cast<int32_t>(std::min(kShard, s.count - at));
      shard.span = static_cast<int32_t>(i);
      shard.weight_decay = s.weight_decay.value_or(o.weight_decay);
      shard.lr_factor = s.lr_factor;
      shard.from_step = s.from_step;
      shard.limit = static_cast<float>(o.element_limit(s));
      shard.clip_group = s.clip_group;
      if (mine != kept.end()) std::copy(mine->second.begin(), mine->second.end(), shard.copy);
      for (Kept& k : shard.copy) k.first = at;
      out.push_back(shard);
    }
  }
  return out;
}

std::vector<Shard> shards_within(const std::vector<Shard>& all, const ElementRange& range) {
  std::vector<Shard> out;
  for (Shard s : all) {
    const int64_t begin = std::max(s.begin, range.begin);
    const int64_t end = std::min(s.begin + s.count, range.begin + range.count);
    if (begin >= end) continue;
    const int64_t skipped = begin - s.begin;
    s.begin = begin;
    s.first += skipped;
    s.count = static_cast<int32_t>(end - begin);
    for (Kept& k : s.copy) k.first += skipped;
    out.push_back(s);
  }
  return out;
}

std::vector<int64_t> first_shards(const std::vector<Shard>& shards, size_t spans) {
  const auto all = static_cast<int64_t>(shards.size());
  std::vector<int64_t> out(spans + 1, all);
  for (int64_t i = all - 1; i >= 0; --i) out[static_cast<size_t>(shards[static_cast<size_t>(i)].span)] = i;
  for (size_t i = spans; i-- > 0;) out[i] = std::min(out[i], out[i + 1]);
  return out;
}

SteppedSettings settings_of(const UpdateSpec& spec) {
  const OptimizerConfig& o = spec.optimizer;
  if (!spec.momentum) return {o.settings};
  const bool beta1 = cycled_key(o.rule) == &RuleSettings::beta1;
  return {o.settings, beta1 ? SteppedSettings::beta1 : SteppedSettings::momentum};
}

std::vector<Statistic> statistics_of(const UpdateSpec& spec, const std::vector<ParamCache::Copy>& copies) {
  const auto kept = by_slot(copies);
  std::vector<Statistic> out;
  for (const UpdateSpec::Statistic& s : spec.statistics) {
    Statistic statistic{s.committed, s.staged, s.count, {}};
    const auto mine = kept.find(s.slot);
    if (mine != kept.end()) std::copy(mine->second.begin(), mine->second.end(), statistic.copy);
    out.push_back(statistic);
  }
  return out;
}

std::vector<Unit> units_of(const UpdateSpec& spec) {
  const OptimizerConfig& o = spec.optimizer;
  std::vector<Unit> out;
  if (!o.transforms_gradients(spec.spans)) return out;
  for (const UpdateSpan& s : spec.spans) {
    const double factor = o.clip_mode == ClipMode::adaptive ? o.clip_bound(s) : 0;
    const int64_t count = s.unit > 0 ? s.unit : s.count;
    for (int64_t at = 0; at < s.count; at += count) out.push_back({s.begin + at, count, s.matrix, factor});
  }
  return out;
}

std::vector<double> clip_bounds(const UpdateSpec& spec) {
  const OptimizerConfig& o = spec.optimizer;
  std::vector<double> out{o.max_grad_norm};
  for (const UpdateSpan& s : spec.spans) {
    const auto group = static_cast<size_t>(s.clip_group);
    if (group >= out.size()) out.resize(group + 1, 0);
    if (group > 0) out[group] = s.max_grad_norm;
  }
  const bool by_norm = o.clip_mode == ClipMode::norm2 || o.clip_mode == ClipMode::norm_inf;
  if (out.size() == 1 || !by_norm) out.clear();
  return out;
}

}  // namespace amp::cuda
