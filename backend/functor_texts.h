// The source text that generated kernels are made of, cut at build time out of the files that the other kernels are
// compiled from (cmake/functors.cmake): no formula is written twice.
#pragma once

#include <span>
#include <string_view>

namespace amp {

struct FunctorText {
  std::string_view file;  // "activations", of ops/activations.cc; its text stands in namespace amp::fused::activations
  std::string_view text;
};
struct FunctorName {
  std::string_view op, file, functor;  // core operator "RoundStraight": functor "Round" of file "math_functions"
};

std::string_view common_device_text();  // what every generated kernel begins with
std::span<const FunctorText> functor_texts();
std::span<const FunctorName> functor_names();  // by place: the number that visit_functor() knows a functor by

}  // namespace amp
