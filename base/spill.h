// Growing arrays for data that may exceed memory. Arrays stay in memory until their total size exceeds
// in_memory_limit(). From then on, an array that grows is moved to a mapped, unnamed temporary file in $TMPDIR or
// /var/tmp. An array is contiguous in both cases.
//
// Errors: E_SPILL (Exit::storage) if the file cannot be created or the disk has too little space; std::bad_alloc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <utility>

namespace amp {

// Returns Limits::in_memory_bytes or, if that is 0, a quarter of the memory that this process may use.
int64_t in_memory_limit();
// Returns the unused part of in_memory_limit(); at least 0.
int64_t in_memory_left();

// Counts memory that other code holds, so that it reduces in_memory_left().
class InMemory {
 public:
  explicit InMemory(int64_t bytes);
  InMemory(const InMemory&) = delete;
  InMemory& operator=(const InMemory&) = delete;
  ~InMemory();

 private:
  int64_t bytes_;
};

class SpillBytes {
 public:
  SpillBytes() = default;
  SpillBytes(SpillBytes&& other) noexcept { swap(other); }
  SpillBytes& operator=(SpillBytes&& other) noexcept {
    swap(other);
    return *this;
  }
  ~SpillBytes();
  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t capacity() const { return capacity_; }
  bool in_file() const { return file_ >= 0; }
  void reserve(size_t bytes);  // keeps the contents, but moves them to another address

 private:
  void swap(SpillBytes& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    std::swap(file_, other.file_);
  }
  void move_to_file(size_t capacity);
  void grow_file(size_t capacity);
  uint8_t* data_ = nullptr;
  size_t capacity_ = 0;
  int file_ = -1;
};

template <class T>
class SpillVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SpillVector() = default;
  SpillVector(SpillVector&& other) noexcept : bytes_(std::move(other.bytes_)), size_(std::exchange(other.size_, 0)) {}
  SpillVector& operator=(SpillVector&& other) noexcept {
    bytes_ = std::move(other.bytes_);
    std::swap(size_, other.size_);
    return *this;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool in_file() const { return bytes_.in_file(); }
  T* data() { return reinterpret_cast<T*>(bytes_.data()); }
  const T* data() const { return reinterpret_cast<const T*>(bytes_.data()); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }
  operator std::span<const T>() const { return {data(), size_}; }

  void push_back(const T& value) {
    const T copy = value;  // a copy, because value may be an element of this array
    room_for(size_ + 1);
    data()[size_++] = copy;
  }
  // Appends values, which must not point into this array.
  void append(std::span<const T> values) {
    if (values.empty()) return;
    room_for(size_ + values.size());
    std::memcpy(static_cast<void*>(data() + size_), values.data(), values.size_bytes());
    size_ += values.size();
  }
  void resize(size_t size, const T& value = T()) {
    room_for(size);
    if (size > size_) std::fill(data() + size_, data() + size, value);
    size_ = size;
  }

 private:
  void room_for(size_t size) {
    const size_t needed = size * sizeof(T);
    if (needed > bytes_.capacity()) bytes_.reserve(std::max({needed, bytes_.capacity() / 2 * 3, size_t{256}}));
  }
  SpillBytes bytes_;
  size_t size_ = 0;
};

}  // namespace amp
