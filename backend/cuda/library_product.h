// Products with more work in the same launch (cuBLASLt's epilogues): their description, and the class that validates a
// library's results.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/timed_library.h"

namespace amp::cuda {

// The results of a product with an epilogue, where p = alpha op(a) op(b) + bias.
enum class Epilogue {
  sums_a,         // c = p (+ c);  extra (m) = the sums of op(a) over k, fp32
  sums_b,         // c = p (+ c);  extra (n) = the sums of op(b) over k, fp32
  gelu,           // c = gelu(p), its tanh form;  extra (m, n) = p, of c's type
  gelu_gradient,  // c = p gelu'(extra); extra (m, n) of c's type is an input
};

struct EpilogueProduct {
  Gemm gemm;  // a single product, not a batch
  Epilogue epilogue = Epilogue::sums_b;
};

// A product that a library has planned.
class LibraryProduct : public TimedLibrary {
 public:
  virtual bool run(const void* a, const void* b, void* c, void* extra) = 0;  // returns false if the library refused
};

// Runs a product by the library after it has been validated and found to be faster. The first run calls `own`, the
// plain product and the project's kernels, and compares the library's results for the same operands. A difference above
// rounding drops the library for the rest of the run, with a warning.
class GuardedProduct {
 public:
  GuardedProduct(CudaDevice& d, const EpilogueProduct& what, std::shared_ptr<LibraryProduct> library)
      : device_(d), what_(what), library_(std::move(library)) {}
  explicit operator bool() const { return library_ != nullptr; }
  void run(const void* a, const void* b, void* c, void* extra, const Kernel& own);

 private:
  struct Results {
    Tensor c, extra;
  };
  void prove(const void* a, const void* b, const Results& own_results, const Kernel& own);
  // Returns whether the library's results, in `other`, agree with the project's, and warns if they do not. Returns
  // nullopt if the results are all zero or not finite, so that a comparison proves nothing.
  std::optional<bool> agrees(bool ran, const Results& own_results, const Results& other);
  bool reads_extra() const { return what_.epilogue == Epilogue::gelu_gradient; }
  Results like(const Results& r, std::vector<DeviceMemory>& memory);
  void copy(const Results& to, const Results& from);
  void drop();

  CudaDevice& device_;
  EpilogueProduct what_;
  std::shared_ptr<LibraryProduct> library_;  // null: there is none, or it was dropped
  bool trusted_ = false;
};

}  // namespace amp::cuda
