// `check_data` for images: decodes every file once.
#pragma once

#include "run/check/check_data.h"
#include "trainer/tasks/task_name.h"

namespace amp {

struct RunSpec;

DataReport check_images(const RunSpec& spec, Task task);

}  // namespace amp
