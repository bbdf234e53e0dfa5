// Writes metrics.jsonl and eval.jsonl: one JSON object per line, written to the file as soon as it is complete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace amp {

// Builds an object member by member, in the order of the calls. Numbers are written with full precision, non-finite
// ones as null.
class JsonObject {
 public:
  JsonObject& add(std::string_view key, double value);
  JsonObject& add(std::string_view key, int64_t value);
  JsonObject& add(std::string_view key, int value) { return add(key, static_cast<int64_t>(value)); }
  JsonObject& add(std::string_view key, bool value);
  JsonObject& add(std::string_view key, std::string_view text);
  JsonObject& add(std::string_view key, const char* text) { return add(key, std::string_view(text)); }
  std::string str() const { return "{" + members_ + "}"; }

 private:
  JsonObject& member(std::string_view key, std::string_view value);
  std::string members_;
};

// One attempted optimizer step.
struct StepLine {
  int64_t step = 0;  // from 1; includes skipped steps
  double epoch = 0;
  double loss = 0;  // mean over the accumulation step, before the update
  double lr = 0;
  double loss_scale = 1;  // used in this step
  double grad_norm = 0;   // unscaled, before clipping
  bool skipped = false;
  double samples_per_s = 0, tokens_per_s = 0;  // data loading included
  double data_seconds = 0;                     // time that training waited for the step's batches
  // Several ranks only: seconds of the gradient all-reduce, and how many of them training waited after backward.
  std::optional<std::pair<double, double>> sums = {};
  int64_t memory = 0;  // peak resident bytes so far
};
std::string to_json(const StepLine& line);

class MetricsLog {
 public:
  // steps_done: 0 starts a new file. A resumed run passes the step of its checkpoint. Lines of later steps and an
  // incomplete last line are removed, so that the file has one line per step. Errors: Exit::storage.
  MetricsLog(std::string path, int64_t steps_done);
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;
  ~MetricsLog();

  void write(const StepLine& line) { write_line(to_json(line)); }
  void write_line(std::string json);  // adds the line break
  void sync() const;                  // fsync; called before a checkpoint is written, also by another thread

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace amp
