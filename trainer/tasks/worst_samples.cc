// Keeps the samples with the largest errors in a heap of bounded size. Among equal errors the sample with the smaller
// index is kept, so the result does not depend on the order of batches.
#include "trainer/tasks/worst_samples.h"

#include <algorithm>

#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {
// Orders records by descending error. Among equal errors the earlier sample comes first.
bool smaller(const SampleRecord& a, const SampleRecord& b) {
  return a.error != b.error ? a.error > b.error : a.sample < b.sample;
}
}  // namespace

void WorstSamples::begin(Task task, const LossSpec& loss, const MetricContext& context) {
  heap_.clear();
  shown_.clear();
  items_.clear();
  task_ = task;
  error_ = make_sample_error(task, loss, context);
}

void WorstSamples::add(const std::vector<HostTensor>& outputs, const HostTensor& label,
                       std::span<const int64_t> samples) {
  if (task_rule(task_).embeddings) items_.insert(items_.end(), samples.begin(), samples.end());
  if (!error_ || !label) return;
  std::vector<HostTensor> wide;
  for (const HostTensor& o : outputs) wide.push_back(o.cast(DType::f32));
  const HostTensor read = is_float(label.dtype()) ? label.cast(DType::f32) : label.cast(DType::i64);
  const auto rows = static_cast<int64_t>(samples.size());
  const auto apart = [&](const HostTensor& t) { return t.numel() >= rows && t.numel() % rows == 0; };
  if (rows == 0 || !apart(read) || !std::all_of(wide.begin(), wide.end(), apart)) return;
  for (int64_t r = 0; r < rows; ++r) {
    const SampleRow row{wide, read, r, rows, samples[static_cast<size_t>(r)]};
    SampleRecord record;
    record.sample = row.sample;
    record.error = error_->error(row);
    const bool always = error_->shows(row) && (shown_.size() < always_ || record.sample < shown_.back().sample);
    if (!always && !keeps(record)) continue;
    error_->describe(row, record);
    if (always) keep_first(record);
    if (keeps(record)) keep(std::move(record));
  }
}

// Adds each item whose own candidate is not the nearest; the candidate's rank is the error. An item consists of one
// sample, or of one sample per side. Does nothing if the rows have no sample indices (tensors).
void WorstSamples::finish(const TaskMetrics& metrics) {
  const std::span<const CandidateRank> ranks = metrics.ranks();
  if (items_.empty() || ranks.empty() || items_.size() % ranks.size() != 0) return;
  const size_t each = items_.size() / ranks.size();
  for (size_t i = 0; i < ranks.size(); ++i) {
    SampleRecord record;
    record.sample = items_[i * each];
    record.error = static_cast<double>(ranks[i].rank);
    if (ranks[i].rank == 1 || !keeps(record)) continue;
    record.nearest_side = ranks[i].side;
    if (ranks[i].nearest >= 0) record.nearest = items_[static_cast<size_t>(ranks[i].nearest) * each];
    keep(std::move(record));
  }
}

bool WorstSamples::keeps(const SampleRecord& record) const {
  return record.error > 0 && (heap_.size() < most_ || smaller(record, heap_.front()));
}

void WorstSamples::keep(SampleRecord record) {
  heap_.push_back(std::move(record));
  std::push_heap(heap_.begin(), heap_.end(), smaller);
  if (heap_.size() <= most_) return;
  std::pop_heap(heap_.begin(), heap_.end(), smaller);
  heap_.pop_back();
}

// Adds a record to the samples with the lowest indices, which are shown even if their error is small.
void WorstSamples::keep_first(SampleRecord record) {
  record.error = std::max(0.0, record.error);
  const auto after =
      std::find_if(shown_.begin(), shown_.end(), [&](const SampleRecord& s) { return s.sample > record.sample; });
  shown_.insert(after, std::move(record));
  if (shown_.size() > always_) shown_.pop_back();
}

std::vector<SampleRecord> WorstSamples::worst() const {
  std::vector<SampleRecord> out = heap_;
  std::sort(out.begin(), out.end(), smaller);
  return out;
}

}  // namespace amp
