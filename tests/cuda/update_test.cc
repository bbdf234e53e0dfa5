// The optimizer update on the emulated device, which must not wait for the device.
#include <catch2/catch_all.hpp>

#include "tests/cuda/update_check.h"
#include "tests/emulator/emulated_device.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("the device's update is the CPU's", "[cuda]") {
  const UpdateSetting s = GENERATE(from_range(update_settings()));
  check_update(*cuda::make_emulated_device(), s);
}

TEST_CASE("the host may run ahead of the device's reports, by a few steps", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  const DeviceMemory p = device->allocate(64), g = device->allocate(64);
  UpdateSpec spec;
  spec.params = static_cast<float*>(p.get());
  spec.grads = static_cast<float*>(g.get());
  spec.elements = 16;
  spec.spans = {{0, 16, {}, 1, 0}};
  spec.lr = [](int64_t) { return 0.1; };
  const std::unique_ptr<DeviceUpdate> update = device->make_update(spec);
  for (int k = 0; k < 300; ++k) {  // more steps than the device has slots for reports
    update->begin({1});
    update->apply();
  }
  CHECK(update->pending() == 300);
  CHECK(device->paced == 300);
  CHECK(device->ahead <= 4);  // reports that arrive in larger batches would make step times wrong
  device->keep_events(true);
  update->begin({1});
  update->apply();
  for (const cuda::Event& e : device->events()) CHECK(e.kind != cuda::Event::download);  // nothing waits in a step
  for (int k = 0; k < 301; ++k) CHECK(update->take(false)->applied == k + 1);
  CHECK(update->pending() == 0);
}
