// Append-only log with plain write() calls, so that every complete line survives a crash of the process. Resuming
// rewrites the file with the lines that are kept.

#include "trainer/loop/metrics_log.h"

#include <fcntl.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/fs.h"
#include "base/io.h"

namespace amp {

namespace {
using nlohmann::json;

std::string quoted(std::string_view text) { return json(text).dump(-1, ' ', false, json::error_handler_t::replace); }

// Returns the complete lines of `text` whose step is at most `last`.
std::string kept_lines(std::string_view text, int64_t last) {
  std::string kept;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    const json line = json::parse(text.substr(0, end), nullptr, false);
    const bool known = line.is_object() && line.contains("step") && line["step"].is_number_integer();
    if (known && line["step"].get<int64_t>() <= last) kept += text.substr(0, end + 1);
    text.remove_prefix(end + 1);
  }
  return kept;
}
}  // namespace

JsonObject& JsonObject::member(std::string_view key, std::string_view value) {
  if (!members_.empty()) members_ += ',';
  members_ += quoted(key);
  members_ += ':';
  members_ += value;
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, double value) {
  if (!std::isfinite(value)) return member(key, "null");
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return member(key, {text, static_cast<size_t>(end - text)});
}

JsonObject& JsonObject::add(std::string_view key, int64_t value) { return member(key, std::to_string(value)); }
JsonObject& JsonObject::add(std::string_view key, bool value) { return member(key, value ? "true" : "false"); }
JsonObject& JsonObject::add(std::string_view key, std::string_view text) { return member(key, quoted(text)); }

std::string to_json(const StepLine& l) {
  JsonObject out;
  out.add("step", l.step)
      .add("epoch", l.epoch)
      .add("loss", l.loss)
      .add("lr", l.lr)
      .add("loss_scale", l.loss_scale)
      .add("grad_norm", l.grad_norm)
      .add("skipped", l.skipped)
      .add("samples_per_s", l.samples_per_s)
      .add("tokens_per_s", l.tokens_per_s)
      .add("data_seconds", l.data_seconds);
  if (l.sums) out.add("grad_reduce_seconds", l.sums->first).add("grad_reduce_wait_seconds", l.sums->second);
  return out.add("memory", l.memory).str();
}

MetricsLog::MetricsLog(std::string path, int64_t steps_done) : path_(std::move(path)) {
  std::string kept;
  if (steps_done > 0 && path_exists(path_)) kept = kept_lines(read_file(path_, Exit::storage).text(), steps_done);
  FileWriter fresh(path_);
  fresh.write(kept);
  fresh.commit();
  fd_ = open_file(path_.c_str(), O_WRONLY | O_APPEND);
  if (fd_ < 0) storage_error("cannot open", path_, errno);
}

MetricsLog::~MetricsLog() {
  if (fd_ >= 0) close_file(fd_);
}

void MetricsLog::write_line(std::string json) {
  json += '\n';
  const auto size = static_cast<int64_t>(json.size());
  if (write_fully(fd_, json.data(), size) != size) storage_error("cannot write", path_, errno, size);
}

void MetricsLog::sync() const {
  if (sync_file(fd_) != 0) storage_error("cannot make durable", path_, errno);
}

}  // namespace amp
