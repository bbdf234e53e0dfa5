#include "backend/functors.h"

#include <map>
#include <string>

namespace amp {

static std::map<std::string, FunctorInfo, std::less<>>& table() {
  static std::map<std::string, FunctorInfo, std::less<>> t;
  return t;
}

RegisterFunctor::RegisterFunctor(std::string_view op, const FunctorInfo& info) {
  FunctorInfo& entry = table()[std::string(op)];
  // A program may contain the operator's file twice: compiled for the CPU and as a CUDA unit (AMP_CUDA_UNIT). Both
  // copies register. The entry that has `run`, which is the CPU's, is kept.
  if (info.run || !entry.arity) entry = info;
}

const FunctorInfo* find_functor(std::string_view op) {
  const auto it = table().find(op);
  return it == table().end() ? nullptr : &it->second;
}

}  // namespace amp
