#include "trainer/tasks/predictions.h"

#include <charconv>
#include <cmath>

#include "base/error.h"

namespace amp {

double shown(double value) {
  const auto f = static_cast<float>(value);
  if (!std::isfinite(f)) return f;
  char text[32];
  const char* const end = std::to_chars(text, text + sizeof text, f).ptr;
  double out = 0;
  std::from_chars(text, end, out);
  return out;
}

nlohmann::ordered_json number(double value) {
  const double v = shown(value);
  return std::isfinite(v) ? nlohmann::ordered_json(v) : nlohmann::ordered_json(nullptr);
}

std::string class_name(const std::vector<std::string>& classes, int64_t id) {
  return id >= 0 && id < static_cast<int64_t>(classes.size()) ? classes[static_cast<size_t>(id)] : std::to_string(id);
}

int64_t width_of(const HostTensor& output, int64_t rows) {
  if (rows > 0 && output.rank() > 0 && output.dims()[0] == rows) return output.numel() / rows;
  fail(Exit::usage, "E_TASK",
       cat("the model's output of shape ", to_string(output.dims()), " is not one of ", rows, " rows"),
       "give the task that the model is for with `task`");
}

}  // namespace amp
