// Event files, as TensorBoard reads them: TFRecords (a length, the masked CRC-32C of it, the bytes, theirs) of Event
// messages whose values are plain floats. A run's folder has one for each process that trained it, called by the step
// at which that began.
//
// The few fields of tensorflow/core/util/event.proto and framework/summary.proto that a scalar needs are written by
// hand: file_version, wall_time, step, summary.value (tag, simple_value), session_log.status.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace amp {

inline constexpr const char* kEventFilePrefix = "events.out.tfevents.";

struct Scalar {
  std::string tag;  // "train/loss"
  double value = 0;
};

class EventFile {
 public:
  // A resumed run gives the step it continues at: events of that step and later are taken out of the folder's other
  // event files, and a TensorBoard that is looking on is told to forget them (SessionLog START). Errors: Exit::storage.
  EventFile(const std::string& folder, int64_t first_step, double wall_time);
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;
  ~EventFile();

  void write(int64_t step, double wall_time, std::span<const Scalar> scalars);  // handed to the system at once

 private:
  void append(std::string_view records) const;
  std::string path_;
  int fd_ = -1;
};

// ---- for tests
std::string tf_record(std::string_view data);
std::string scalar_event(int64_t step, double wall_time, std::span<const Scalar> scalars);
// Those of its records that are whole and of steps before `first`; the rest, from the first damaged one on, is gone.
std::string kept_records(std::string_view file, int64_t first);

}  // namespace amp
