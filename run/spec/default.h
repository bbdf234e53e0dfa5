// Default<T>: a setting whose default a precision plan or the model's metadata may replace.
#pragma once

#include <utility>

namespace amp {

// Assigning a value marks it as requested by the user. suggest() replaces the value only if none was assigned.
template <class T>
class Default {
 public:
  explicit Default(T value) : value_(std::move(value)) {}
  Default& operator=(T value) {
    value_ = std::move(value);
    asked_ = true;
    return *this;
  }
  void suggest(T value) {
    if (!asked_) value_ = std::move(value);
  }
  bool asked() const { return asked_; }
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }

 private:
  T value_;
  bool asked_ = false;
};

}  // namespace amp
