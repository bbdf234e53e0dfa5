// ScheduleSpec: settings of a run's length, its batches and its learning rate schedule.
#pragma once

#include <cstdint>
#include <string>

namespace amp {

struct ScheduleSpec {
  double epochs = 3;
  int64_t max_steps = -1;
  double max_minutes = 0;  // 0: no limit
  int64_t batch_size = 8, gradient_accumulation_steps = 1;
  bool gradient_cache = false;
  std::string lr_scheduler = "linear";
  std::string lr_scheduler_kwargs;  // "key=value,..."
  double warmup_steps = 0;          // in steps, or a fraction of the run if below 1
  int64_t lr_range_test = 0;        // steps of the range test; 0: train
};

}  // namespace amp
