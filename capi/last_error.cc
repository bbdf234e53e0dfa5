#include "capi/last_error.h"

#include <new>
#include <system_error>

namespace amp::capi {

namespace {

constexpr const char* kBug = "this is a bug of onnx-amp-finetune: please report it";

Error error_of(const std::exception& e) {
  if (const auto* known = dynamic_cast<const Error*>(&e)) return *known;
  if (dynamic_cast<const std::bad_alloc*>(&e))
    return {Exit::memory, "E_OOM", "out of memory", "a smaller `batch_size` with more `gradient_accumulation_steps`"};
  const auto* system = dynamic_cast<const std::system_error*>(&e);
  if (system && system->code() == std::errc::resource_unavailable_try_again)
    return {Exit::memory, "E_THREADS", cat("a thread cannot be started: ", e.what()),
            "raise the limit of processes (ulimit -u, pids.max of the control group) or of memory"};
  return {Exit::internal, "E_INTERNAL", e.what(), kBug};
}

}  // namespace

void LastError::clear() noexcept { view_ = {ONNX_AMP_OK, "", "", nullptr, 0, ""}; }

void LastError::set(const Error& e) noexcept {
  try {
    id_ = e.id();
    fact_ = e.fact();
    hint_ = e.hint();
    places_ = e.where();
    pointers_.clear();
    for (const std::string& p : places_) pointers_.push_back(p.c_str());
    view_ = {static_cast<onnx_amp_status>(e.exit()),
             id_.c_str(),
             fact_.c_str(),
             pointers_.data(),
             pointers_.size(),
             hint_.c_str()};
  } catch (...) {
    view_ = {ONNX_AMP_MEMORY, "E_OOM", "out of memory", nullptr, 0, ""};
  }
}

LastError& thread_error() {
  thread_local LastError error;
  return error;
}

onnx_amp_status guarded(LastError& error, const std::function<void()>& body) noexcept {
  try {
    body();
    return ONNX_AMP_OK;
  } catch (const std::exception& e) {
    try {
      error.set(error_of(e));
    } catch (...) {  // there is no memory to describe the error
      error.set(Error(Exit::memory, "E_OOM", {}));
    }
  } catch (...) {
    error.set(Error(Exit::internal, "E_INTERNAL", "an unknown exception", kBug));
  }
  return error.get()->status;
}

void require_pointer(const void* pointer, const char* name) {
  if (!pointer)
    fail(Exit::usage, "E_NULL", cat("the argument ", name, " is null"), "onnx_amp.h says which pointers may be null");
}

}  // namespace amp::capi
