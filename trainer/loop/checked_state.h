// CheckedState: reads a checkpoint's JSON state and checks the type and range of each member. A checksum proves that
// the bytes are unchanged, not that this program wrote them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "trainer/loop/checkpoint.h"

namespace amp {

// Upper bound of counts that no other number of a checkpoint bounds, such as samples; exact as double.
constexpr int64_t kMostCount = int64_t{1} << 50;

// An object of the state. Functions throw E_CKPT_STATE (Exit::checkpoint), which names the member with its path
// ("sampler.epoch"), if the member is missing, has another type or is out of range.
class CheckedState {
 public:
  static CheckedState of(const Checkpoint& checkpoint);
  CheckedState(nlohmann::json value, std::string path) : value_(std::move(value)), path_(std::move(path)) {}

  bool has(const std::string& key) const;
  CheckedState member(const std::string& key) const;
  int64_t whole(const std::string& key, int64_t least, int64_t most) const;
  double number(const std::string& key, double least, double most) const;  // finite
  bool truth(const std::string& key) const;
  std::string text(const std::string& key) const;
  const nlohmann::json& any(const std::string& key) const;
  const nlohmann::json& array(const std::string& key) const;
  const std::string& path() const { return path_; }

  [[noreturn]] void refuse(const std::string& key, const std::string& fact) const;

 private:
  const nlohmann::json& at(const std::string& key, bool (nlohmann::json::*is)() const noexcept, const char* kind) const;
  std::string path_of(const std::string& key) const;

  nlohmann::json value_;
  std::string path_;
};

// Throws E_CKPT_STATE for a floating-point tensor that holds NaN or infinity: no such checkpoint is written.
void require_finite(const Checkpoint& checkpoint);

}  // namespace amp
