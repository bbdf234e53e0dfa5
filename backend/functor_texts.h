// Source text of functors, from which generated kernels are built. It is extracted at build time from the files
// that contain the other kernels (cmake/functors.cmake), so that each formula is written once.
#pragma once

#include <span>
#include <string_view>

namespace amp {

struct FunctorText {
  std::string_view file;  // such as "rectifiers" of ops/rectifiers.cc; its text is in namespace amp::fused::rectifiers
  std::string_view text;
};
struct FunctorName {
  // For example, op "RoundStraight" is functor "Round" of file "math_functions".
  std::string_view op, file, functor;
};

std::string_view common_device_text();  // returns the text with which each generated kernel begins
std::span<const FunctorText> functor_texts();
std::span<const FunctorName> functor_names();  // an entry's index is its number for visit_functor()

}  // namespace amp
