// Records launches as a CUDA graph. If recording fails, the launches run one by one. The interface GraphCapture hides
// the driver, so that tests need no driver.
#pragma once

#include <functional>
#include <memory>

#include "backend/device.h"
#include "base/error.h"
#include "base/message.h"

namespace amp::cuda {

class GraphCapture {
 public:
  virtual ~GraphCapture() = default;
  virtual void begin() = 0;                         // throws Error if the driver refuses
  virtual std::unique_ptr<Recording> finish() = 0;  // throws Error if the driver refuses
  // Must be called after a failure. Ends a capture in progress and clears its error, so that no later launch reports
  // it.
  virtual void abandon() = 0;
};

// Returns a recording of the work. Returns null, with a warning, if it cannot be recorded. The caller then launches the
// work directly, which reports an error of the work itself.
inline std::unique_ptr<Recording> record_if_possible(GraphCapture& capture, const std::function<void()>& work) {
  try {
    capture.begin();
    work();
    return capture.finish();
  } catch (const Error& e) {
    capture.abandon();
    print_message(Level::warning, cat("W_GRAPH: launches cannot be recorded as a CUDA graph (", e.what(),
                                      "); kernels are launched one by one, which slows small models down"));
    return nullptr;
  } catch (...) {
    capture.abandon();
    throw;
  }
}

}  // namespace amp::cuda
