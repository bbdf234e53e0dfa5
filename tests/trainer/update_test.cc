// The CPU's update of a step (backend/cpu/update/update.cc) makes the decisions that its optimizer, the loss scaler and
// the schedule make. tests/cuda/update_test.cc compares other devices with the same parts.
#include <catch2/catch_all.hpp>

#include "tests/cuda/update_check.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("the CPU's update is that of its optimizer, loss scaler and schedule") {
  const UpdateSetting s = GENERATE(from_range(update_settings()));
  check_update(cpu_device(), s);
}
