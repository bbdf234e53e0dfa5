// TensorBoard event files: TFRecords (length, masked CRC-32C of the length, bytes, masked CRC-32C of the bytes) of
// Event messages with plain floats. A run's folder has one file per process that trained it, named by the first step.
//
// The few fields of tensorflow/core/util/event.proto and framework/summary.proto that a scalar needs are encoded by
// hand: file_version, wall_time, step, summary.value (tag, simple_value), session_log.status.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace amp {

struct Scalar {
  std::string tag;  // "train/loss"
  double value = 0;
};

class EventFile {
 public:
  // first_step: the step at which a resumed run continues. Events of that step and later are removed from the folder's
  // other event files, and a running TensorBoard discards them (SessionLog START). Errors: Exit::storage.
  EventFile(const std::string& folder, int64_t first_step, double wall_time);
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;
  ~EventFile();

  void write(int64_t step, double wall_time, std::span<const Scalar> scalars);  // written to the file at once

 private:
  void append(std::string_view records) const;
  std::string path_;
  int fd_ = -1;
};

// ---- for tests
std::string tf_record(std::string_view data);
std::string scalar_event(int64_t step, double wall_time, std::span<const Scalar> scalars);
// Returns the intact records of steps before `first`; everything from the first damaged record on is dropped.
std::string kept_records(std::string_view file, int64_t first);

}  // namespace amp
