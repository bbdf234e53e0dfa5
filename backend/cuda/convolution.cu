#include <cmath>
#include <iostream>
#include <set>

#include "backend/cuda/convolution.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/ref.cuh"
#include "base/error.h"

namespace amp::cuda {

// Per block the largest difference and the largest element of a. (In an unnamed namespace nvcc would call `cooperative`
// unused.)
struct CompareConvolutions {
  static constexpr bool cooperative = true;
  Ref a, b;
  int64_t n;
  float* found;  // (blocks, 2)
  DEV void operator()() const {
    float difference = 0, largest = 0;
    for (int64_t i = global_index(); i < n; i += global_threads()) {
      const float x = load<float>(a, i), y = load<float>(b, i);
      difference = Maximum{}(difference, fabsf(x - y));
      largest = Maximum{}(largest, fabsf(x));
    }
    float* const scratch = shared_memory<float>();
    difference = block_reduce(difference, 0.0f, Maximum{}, scratch);
    largest = block_reduce(largest, 0.0f, Maximum{}, scratch);
    if (thread_index() == 0) {
      found[2 * block_index()] = difference;
      found[2 * block_index() + 1] = largest;
    }
  }
};

namespace {

constexpr int64_t kBlocks = 64;

// What two orders of summation, or TF32 where it is allowed, may make of the largest element. A wrong convolution is
// off by about all of it.
double tolerance(DType t) { return t == DType::f32 ? 4e-3 : t == DType::f16 ? 1e-2 : 4e-2; }

float largest_of(const std::vector<float>& found, size_t which) {
  float v = 0;
  for (size_t i = which; i < found.size(); i += 2) {
    if (std::isnan(found[i])) return found[i];
    v = std::max(v, found[i]);
  }
  return v;
}

}  // namespace

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
  const int64_t bytes = elements_ * size_of(what_.type);
  DeviceMemory other, found;
  try {
    other = device_.allocate(bytes);
    found = device_.allocate(kBlocks * 8);
  } catch (const Error& e) {
    if (e.id() != "E_OOM") throw;
    return false;  // no room to compare today: the built-in kernels go on
  }
  if (initialise) initialise(other.get());
  const bool ran = library_->run(a, b, other.get());
  std::vector<float> host(kBlocks * 2);
  if (ran) {
    CompareConvolutions compare;
    compare.a = Tensor{const_cast<void*>(c), what_.type, {elements_}};
    compare.b = Tensor{other.get(), what_.type, {elements_}};
    compare.n = elements_;
    compare.found = static_cast<float*>(found.get());
    launch(device_, {kBlocks, 256, 32 * 4}, compare);
    device_.download(host.data(), found.get(), kBlocks * 8);
  }
  const float difference = largest_of(host, 0), largest = largest_of(host, 1);
  if (ran && !(std::isfinite(largest) && largest > 0)) {  // zeros, infinities and NaN prove nothing: the next run may
    device_.proved_nothing();
    return false;
  }
  if (ran && std::isfinite(difference) && difference <= tolerance(what_.type) * largest) return true;
  const char* const kind = what_.kind == ConvolutionKind::forward  ? ""
                           : what_.kind == ConvolutionKind::grad_x ? " (gradient of its input)"
                                                                   : " (gradient of its weight)";
  std::cerr << "warning: W_LIBRARY: " << library_->name()
            << (ran ? cat(" is off by ", difference, " of ", largest) : std::string(" refuses to run"))
            << " in a convolution of " << what_.shape.groups * what_.shape.c << " channels into "
            << what_.shape.groups * what_.shape.m << kind << ", " << name_of(what_.type)
            << "; the built-in kernels are used for it\n";
  library_.reset();
  return false;
}

void GuardedConvolution::run(const void* a, const void* b, void* c, const Kernel& own,
                             const std::function<void(void*)>& initialise) {
  if (!library_) return own();
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
  if (initialise) initialise(c);
  library_->run(a, b, c);  // this run's result is the library's too: a resumed run, whose first it may be, has the same bits
}

}  // namespace amp::cuda
