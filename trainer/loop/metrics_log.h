// metrics.jsonl and eval.jsonl: one JSON object a line, handed to the system as soon as it is complete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace amp {

// Writes an object member by member, in the order of the calls. Numbers keep all their bits; non-finite ones are null.
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
  int64_t step = 0;  // from 1, skipped steps counted
  double epoch = 0;
  double loss = 0;  // mean over the window, before the update
  double lr = 0;
  double loss_scale = 1;  // the one used in this step
  double grad_norm = 0;   // unscaled, before clipping
  bool skipped = false;
  double samples_per_s = 0, tokens_per_s = 0;  // data loading included
  double data_seconds = 0;                     // that training waited for the step's batches
  // Of several ranks: that sums of gradients were under way, and that backward was over and waited for them.
  std::optional<std::pair<double, double>> sums = {};
  int64_t memory = 0;  // peak resident bytes so far
};
std::string to_json(const StepLine& line);

class MetricsLog {
 public:
  // steps_done 0 starts a new file. A resumed run gives the steps of its checkpoint: lines of later steps, and a last
  // line cut off by a crash, are dropped, so that every step has one line in the end. Errors: Exit::storage.
  MetricsLog(std::string path, int64_t steps_done);
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;
  ~MetricsLog();

  void write(const StepLine& line) { write_line(to_json(line)); }
  void write_line(std::string json);  // adds the line break
  void sync();                        // fsync: with a checkpoint

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace amp
