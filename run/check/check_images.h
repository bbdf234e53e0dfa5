// `check_data` for images: decodes every file once.
#pragma once

#include "run/check/data_report.h"
#include "trainer/tasks/task_name.h"

namespace amp {

struct RunSpec;

DataReport check_images(const RunSpec& spec, Task task);

}  // namespace amp
