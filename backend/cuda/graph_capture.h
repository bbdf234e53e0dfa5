// Recording launches as a CUDA graph, and what is done where that fails. The driver's calls lie behind an interface, so
// that tests need none.
#pragma once

#include <functional>
#include <iostream>
#include <memory>

#include "backend/device.h"
#include "base/error.h"

namespace amp::cuda {

class GraphCapture {
 public:
  virtual ~GraphCapture() = default;
  virtual void begin() = 0;                         // throws Error where the driver refuses
  virtual std::unique_ptr<Recording> finish() = 0;  // the same
  // After a failure: ends a capture that is under way and clears the error that it left, so that no later launch is
  // blamed for it.
  virtual void abandon() = 0;
};

// The work as a recording; null, with a warning, where it cannot be recorded: it is launched piece by piece then. What
// is wrong with the work itself comes out there.
inline std::unique_ptr<Recording> record_if_possible(GraphCapture& capture, const std::function<void()>& work) {
  try {
    capture.begin();
    work();
    return capture.finish();
  } catch (const Error& e) {
    capture.abandon();
    std::cerr << "warning: W_GRAPH: launches cannot be recorded as a CUDA graph (" << e.what()
              << "); they are made one by one, which costs small models time\n";
    return nullptr;
  } catch (...) {
    capture.abandon();
    throw;
  }
}

}  // namespace amp::cuda
