// Implements checked_state.h. Numbers are compared before they are converted: nlohmann::json converts a number such as
// 1e308 to an integer by a cast, whose result is undefined.
#include "trainer/loop/checked_state.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace amp {

namespace {

using nlohmann::json;

[[noreturn]] void refuse_state(const std::string& fact) {
  fail(Exit::checkpoint, "E_CKPT_STATE", cat("the checkpoint's state is damaged: ", fact),
       "this program did not write it: resume from another checkpoint");
}

template <class T>
void require_finite(const std::string& name, const HostTensor& t) {
  const T* const v = t.as<T>();
  const T* const bad = std::find_if_not(v, v + t.numel(), [](T x) { return std::isfinite(x); });
  if (bad == v + t.numel()) return;
  refuse_state(cat("tensor '", printable(name), "' holds ", *bad, " at element ", bad - v));
}

}  // namespace

CheckedState CheckedState::of(const Checkpoint& c) {
  json value = json::parse(c.state, nullptr, false);
  if (!value.is_object()) refuse_state("it is no JSON object");
  return {std::move(value), ""};
}

std::string CheckedState::path_of(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

void CheckedState::refuse(const std::string& key, const std::string& fact) const {
  refuse_state(cat("'", printable(path_of(key)), "' ", fact));
}

bool CheckedState::has(const std::string& key) const { return value_.contains(key); }

const json& CheckedState::any(const std::string& key) const {
  const auto it = value_.find(key);
  if (it == value_.end()) refuse(key, "is missing");
  return *it;
}

const json& CheckedState::at(const std::string& key, bool (json::*is)() const noexcept, const char* kind) const {
  const json& v = any(key);
  if (!(v.*is)()) refuse(key, cat("is ", printable(v.dump()), ", expected ", kind));
  return v;
}

CheckedState CheckedState::member(const std::string& key) const {
  return {at(key, &json::is_object, "an object"), path_of(key)};
}

int64_t CheckedState::whole(const std::string& key, int64_t least, int64_t most) const {
  const json& v = at(key, &json::is_number_integer, "a whole number");
  const bool fits = !v.is_number_unsigned() || v.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  if (!fits || v.get<int64_t>() < least || v.get<int64_t>() > most)
    refuse(key, cat("is ", v.dump(), ", expected ", least, " to ", most));
  return v.get<int64_t>();
}

double CheckedState::number(const std::string& key, double least, double most) const {
  const double v = at(key, &json::is_number, "a number").get<double>();
  if (!(v >= least && v <= most)) refuse(key, cat("is ", v, ", expected ", least, " to ", most));
  return v;
}

bool CheckedState::truth(const std::string& key) const {
  return at(key, &json::is_boolean, "true or false").get<bool>();
}

std::string CheckedState::text(const std::string& key) const {
  return at(key, &json::is_string, "a text").get<std::string>();
}

const json& CheckedState::array(const std::string& key) const { return at(key, &json::is_array, "a list"); }

void require_finite(const Checkpoint& c) {
  for (const auto& [name, t] : c.tensors) {
    if (t.dtype() == DType::f32) require_finite<float>(name, t);
    if (t.dtype() == DType::f64) require_finite<double>(name, t);
  }
}

}  // namespace amp
