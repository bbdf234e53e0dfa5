// LastError stores the failure that onnx_amp_last_error() returns; guarded() turns exceptions into status codes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "capi/onnx_amp.h"

namespace amp::capi {

class LastError {
 public:
  LastError() { clear(); }
  LastError(const LastError&) = delete;
  LastError& operator=(const LastError&) = delete;

  void set(const Error& e) noexcept;  // if there is no memory for a copy, stores a constant text
  const onnx_amp_error* get() const noexcept { return &view_; }

 private:
  void clear() noexcept;
  std::string id_, fact_, hint_;
  std::vector<std::string> places_;
  std::vector<const char*> pointers_;
  onnx_amp_error view_ = {};
};

LastError& thread_error();  // for failures of this thread's calls without a session

// Runs body and returns its status. Exceptions become a status, and `error` stores their description.
onnx_amp_status guarded(LastError& error, const std::function<void()>& body) noexcept;

// Throws E_NULL (Exit::usage) if a pointer that the interface requires is null.
void require_pointer(const void* pointer, const char* name);

}  // namespace amp::capi
