#include "trainer/tasks/worst_samples.h"

#include <algorithm>

namespace amp {

namespace {
bool smaller(const JudgedSample& a, const JudgedSample& b) {  // the earlier one of equals is kept
  return a.error != b.error ? a.error > b.error : a.sample < b.sample;
}
}  // namespace

void WorstSamples::begin(const Objective& objective, const Dataset& data) {
  heap_.clear();
  shown_.clear();
  items_.clear();
  const LossSpec* const loss = measured_loss(objective);
  task_ = loss ? objective.task : Task::none;
  judge_.reset();
  if (loss) judge_ = make_judge(task_, *loss, {objective.classes, data.answers(), objective.answers, objective.target});
}

void WorstSamples::add(const std::vector<HostTensor>& outputs, const HostTensor& label,
                       std::span<const int64_t> samples) {
  if (task_ == Task::retrieval) items_.insert(items_.end(), samples.begin(), samples.end());
  if (!judge_ || !label) return;
  std::vector<HostTensor> wide;
  for (const HostTensor& o : outputs) wide.push_back(o.cast(DType::f32));
  const HostTensor read = is_float(label.dtype()) ? label.cast(DType::f32) : label.cast(DType::i64);
  const auto rows = static_cast<int64_t>(samples.size());
  const auto apart = [&](const HostTensor& t) { return t.numel() >= rows && t.numel() % rows == 0; };
  if (rows == 0 || !apart(read) || !std::all_of(wide.begin(), wide.end(), apart)) return;
  for (int64_t r = 0; r < rows; ++r) {
    const JudgedRow row{wide, read, r, rows, samples[static_cast<size_t>(r)]};
    JudgedSample judged;
    judged.sample = row.sample;
    judged.error = judge_->error(row);
    const bool always = judge_->shows(row) && (shown_.size() < always_ || judged.sample < shown_.back().sample);
    if (!always && !keeps(judged)) continue;
    judge_->describe(row, judged);
    if (always) keep_first(judged);
    if (keeps(judged)) keep(std::move(judged));
  }
}

// Items are the samples, or have a sample for each of their sides; rows of tensors have no numbers and are not told of.
void WorstSamples::finish(const TaskMetrics& metrics) {
  const std::span<const CandidateRank> ranks = metrics.ranks();
  if (items_.empty() || ranks.empty() || items_.size() % ranks.size() != 0) return;
  const size_t each = items_.size() / ranks.size();
  for (size_t i = 0; i < ranks.size(); ++i) {
    JudgedSample judged;
    judged.sample = items_[i * each];
    judged.error = static_cast<double>(ranks[i].rank);
    if (ranks[i].rank == 1 || !keeps(judged)) continue;
    judged.nearest_side = ranks[i].side;
    if (ranks[i].nearest >= 0) judged.nearest = items_[static_cast<size_t>(ranks[i].nearest) * each];
    keep(std::move(judged));
  }
}

bool WorstSamples::keeps(const JudgedSample& judged) const {
  return judged.error > 0 && (heap_.size() < most_ || smaller(judged, heap_.front()));
}

void WorstSamples::keep(JudgedSample judged) {
  heap_.push_back(std::move(judged));
  std::push_heap(heap_.begin(), heap_.end(), smaller);
  if (heap_.size() <= most_) return;
  std::pop_heap(heap_.begin(), heap_.end(), smaller);
  heap_.pop_back();
}

// Of the lowest numbers.
void WorstSamples::keep_first(JudgedSample judged) {
  judged.error = std::max(0.0, judged.error);
  const auto after =
      std::find_if(shown_.begin(), shown_.end(), [&](const JudgedSample& s) { return s.sample > judged.sample; });
  shown_.insert(after, std::move(judged));
  if (shown_.size() > always_) shown_.pop_back();
}

std::vector<JudgedSample> WorstSamples::worst() const {
  std::vector<JudgedSample> out = heap_;
  std::sort(out.begin(), out.end(), smaller);
  return out;
}

}  // namespace amp
