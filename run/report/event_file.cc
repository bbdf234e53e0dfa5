// TensorBoard event files, without TensorFlow: TFRecord framing and the few protobuf fields that scalars need
// (base/wire_format.h). Records are appended with write(2), so that TensorBoard reads them during the run.
#include "run/report/event_file.h"

#include <fcntl.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <iomanip>
#include <optional>
#include <sstream>

#include "base/checksum.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/io.h"
#include "base/wire_format.h"
#include "run/folder/run_files.h"

namespace amp {

namespace {

// Encodes the fields of Event that all events have: wall_time = 1, step = 2. The payload is appended by the caller.
std::string event(int64_t step, double wall_time) {
  std::string out;
  put_key(out, 1, Wire::fixed64);
  put_fixed(out, wall_time);
  if (step == 0) return out;
  put_key(out, 2, Wire::varint);
  put_varint(out, static_cast<uint64_t>(step));
  return out;
}

std::string version_event(double wall_time) {  // field 3, file_version; the first event of every file
  std::string out = event(0, wall_time);
  put_bytes(out, 3, "brain.Event:2");
  return out;
}

// Encodes field 7, session_log, with status 1 (START): TensorBoard discards earlier events of this and later steps.
std::string start_event(int64_t step, double wall_time) {
  std::string log, out = event(step, wall_time);
  put_key(log, 1, Wire::varint);
  put_varint(log, 1);
  put_bytes(out, 7, log);
  return out;
}

// Returns the step of an event, 0 if it has none; nullopt if the bytes are not a protobuf message.
std::optional<int64_t> step_of(std::string_view message) {
  int64_t step = 0;
  const bool whole = each_field(message, [&](uint64_t field, uint64_t number, std::string_view) {
    if (field == 2) step = static_cast<int64_t>(number);
  });
  return whole ? std::optional(step) : std::nullopt;
}

// ---- TFRecord

constexpr size_t kHead = 12, kTail = 4;

uint32_t masked_crc(std::string_view data) {
  Crc32c crc;
  crc.update(data.data(), static_cast<int64_t>(data.size()));
  return std::rotr(crc.value(), 15) + 0xa282ead8u;
}

template <class T>
T fixed_at(std::string_view data, size_t at) {
  T v;
  std::memcpy(&v, data.data() + at, sizeof v);
  return v;
}

// Returns the first record's bytes; nullopt if it is truncated or damaged.
std::optional<std::string_view> first_record(std::string_view file) {
  if (file.size() < kHead + kTail) return std::nullopt;
  const auto size = fixed_at<uint64_t>(file, 0);
  if (masked_crc(file.substr(0, 8)) != fixed_at<uint32_t>(file, 8) || size > file.size() - kHead - kTail)
    return std::nullopt;
  const std::string_view data = file.substr(kHead, size);
  if (masked_crc(data) != fixed_at<uint32_t>(file, kHead + size)) return std::nullopt;
  return data;
}

std::string file_name(int64_t first_step) {  // TensorBoard reads the files of a folder in the order of their names
  std::ostringstream out;
  out << kEventFilePrefix << std::setw(12) << std::setfill('0') << first_step;
  return out.str();
}

}  // namespace

std::string tf_record(std::string_view data) {
  std::string out;
  put_fixed<uint64_t>(out, data.size());
  put_fixed(out, masked_crc(out));
  out += data;
  put_fixed(out, masked_crc(data));
  return out;
}

std::string scalar_event(int64_t step, double wall_time, std::span<const Scalar> scalars) {
  std::string summary, out = event(step, wall_time);
  for (const Scalar& s : scalars) {
    std::string value;
    put_bytes(value, 1, s.tag);
    put_key(value, 2, Wire::fixed32);
    put_fixed(value, static_cast<float>(s.value));
    put_bytes(summary, 1, value);
  }
  put_bytes(out, 5, summary);
  return out;
}

std::string kept_records(std::string_view file, int64_t first) {
  std::string kept;
  while (const auto data = first_record(file)) {
    const size_t size = kHead + data->size() + kTail;
    const auto step = step_of(*data);
    if (step && *step < first) kept += file.substr(0, size);
    file.remove_prefix(size);
  }
  return kept;
}

EventFile::EventFile(const std::string& folder, int64_t first_step, double wall_time)
    : path_(folder + "/" + file_name(first_step)) {
  for (const std::string& name : list_dir(folder)) {
    if (!name.starts_with(kEventFilePrefix) || name.find(".tmp-") != std::string::npos) continue;
    const std::string path = folder + "/" + name;
    if (name >= file_name(first_step)) {
      remove_tree(path);
      continue;
    }
    FileWriter earlier(path);
    earlier.write(kept_records(read_file(path, Exit::storage).text(), first_step));
    earlier.commit();
  }
  fd_ = open_file(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
  if (fd_ < 0) storage_error("cannot open", path_, errno);
  append(tf_record(version_event(wall_time)) + tf_record(start_event(first_step, wall_time)));
}

EventFile::~EventFile() {
  if (fd_ >= 0) close_file(fd_);
}

void EventFile::write(int64_t step, double wall_time, std::span<const Scalar> scalars) {
  append(tf_record(scalar_event(step, wall_time, scalars)));
}

void EventFile::append(std::string_view records) const {
  const auto size = static_cast<int64_t>(records.size());
  if (write_fully(fd_, records.data(), size) != size) storage_error("cannot write", path_, errno, size);
}

}  // namespace amp
