#include <iostream>
#include <set>

#include "backend/cuda/compare_outputs.h"
#include "backend/cuda/convolution.h"
#include "base/error.h"

namespace amp::cuda {

static std::set<std::string, std::less<>>& convolution_users() {
  static std::set<std::string, std::less<>> users;  // filled before main
  return users;
}
RegisterConvolutionUser::RegisterConvolutionUser(std::string_view op) { convolution_users().emplace(op); }

bool uses_convolution_library(const Graph& g) {
  for (int32_t i = 0; i < g.n_nodes(); ++i) {
    if (convolution_users().count(g.node(NodeId{i}).op->name)) return true;
  }
  return false;
}

bool GuardedConvolution::proved(const void* a, const void* b, const void* c,
                                const std::function<void(void*)>& initialise) {
  OutputDifference found;
  bool ran = false;
  try {
    const DeviceMemory other = device_.allocate(elements_ * size_of(what_.type));
    if (initialise) initialise(other.get());
    ran = library_->run(a, b, other.get());
    if (ran)
      found = compare_outputs(device_, {const_cast<void*>(c), what_.type, {elements_}},
                              {other.get(), what_.type, {elements_}});
  } catch (const Error& e) {
    if (e.id() != "E_OOM") throw;
    return false;  // no room to compare today: the built-in kernels go on
  }
  if (ran && !found.validates()) {  // zeros, infinities and NaN: the next run may
    device_.proved_nothing();
    return false;
  }
  if (ran && found.within(library_tolerance(what_.type))) return true;
  const char* const kind = what_.kind == ConvolutionKind::forward  ? ""
                           : what_.kind == ConvolutionKind::grad_x ? " (gradient of its input)"
                                                                   : " (gradient of its weight)";
  std::cerr << "warning: W_LIBRARY: " << library_->name()
            << (ran ? cat(" is off by ", found.difference, " of ", found.largest) : std::string(" refuses to run"))
            << " in a convolution of " << what_.shape.groups * what_.shape.c << " channels into "
            << what_.shape.groups * what_.shape.m << kind << ", " << name_of(what_.type)
            << "; the built-in kernels are used for it\n";
  device_.judge(library_->key(), false);
  library_.reset();
  return false;
}

void GuardedConvolution::run(const void* a, const void* b, void* c, const Kernel& own,
                             const std::function<void(void*)>& initialise) {
  if (!library_) return own();
  if (!trusted_) {
    const std::optional<bool> judged = device_.judged(library_->key());
    if (judged && !*judged) library_.reset();
    if (!library_) return own();
    trusted_ = judged.value_or(false);
  }
  if (trusted_) {
    if (initialise) initialise(c);
    if (library_->run(a, b, c)) return;
    library_.reset();
    return own();
  }
  own();
  if (!library_->may_wait()) return;
  trusted_ = proved(a, b, c, initialise);
  if (!trusted_) return;
  device_.judge(library_->key(), true);
  if (initialise) initialise(c);
  library_->run(a, b,
                c);  // this run's result is the library's too: a resumed run, whose first it may be, has the same bits
}

}  // namespace amp::cuda
