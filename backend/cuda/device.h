// CudaDevice: the base class of the real device (runtime/runtime.cc) and of the devices of tests (tests/emulator). It
// provides the stream on which kernels run, and matrix products, convolutions and attention by libraries. This header
// does not include CUDA's headers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/generated.h"
#include "backend/device.h"
#include "backend/update.h"

namespace amp::cuda {

// A batched product of row-major matrices. Strides are distances in elements; 0: all products use the same matrix.
//   c (m, n) = alpha a (m, k) b (k, n) + beta c + bias,   a stored (k, m) when trans_a, b stored (n, k) when trans_b.
// a and b are of one type (fp32, fp16, bf16); c is of that type or fp32. Sums are fp32.
struct Gemm {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  bool trans_a = false, trans_b = false;
  // Distances from one product of the batch to the next. They are also set for a single product whose addresses differ
  // from call to call. Each address is then a multiple of the operand's stride from a 64-byte boundary. Plans rely on
  // this alignment.
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;  // elements from one stored row to the next; 0: rows are contiguous
  DType in = DType::f32, out = DType::f32;
  double alpha = 1, beta = 0;  // beta: 0 or 1
  const void* bias = nullptr;  // (n) of `out`'s type; null: none
};

struct Convolution;  // defined in convolution.h
class LibraryConvolution;
struct Attention;  // defined in attention.h
class LibraryAttention;
struct EpilogueProduct;  // defined in library_product.h
class LibraryProduct;

class CudaDevice : public Device {
 public:
  DeviceTraits traits() const override {
    DeviceTraits t;
    t.fuses_elementwise = t.merges_qkv = t.reports_late = t.chains_low = true;
    return t;
  }
  PrepareKernel kernel(std::string_view op) const override { return find_kernel(DeviceKind::cuda, op); }
  int64_t workspace(const Graph& g, const Node& n) const override;
  Kernel convert(const Tensor& from, const Tensor& to) override;
  Kernel add(const Tensor& to, const Tensor& v) override;
  Kernel convert_rows(const Tensor& from, const Tensor& to, int64_t row, int64_t pitch) override;

  std::unique_ptr<DeviceUpdate> make_update(const UpdateSpec& spec) override;
  std::unique_ptr<DeviceCommunicator> join(const RankContact& contact) override;  // connects by NCCL
  Kernel check_indices(const Tensor& indices, const IndexBound& bound, const std::string& what) override;

  int64_t unvalidated() const override { return unvalidated_; }
  void proved_nothing() { ++unvalidated_; }

  // Returns the address of the flag, in device memory, that kernels of check_indices() set. The flag is 0, or contains
  // an index out of bounds and the number of its check. It stays set until check_index_flag().
  int64_t* index_flag();
  // Clears the flag and throws by refuse_index(), unless `flag`, a value that was read from it, is 0.
  void check_index_flag(int64_t flag);

  virtual DeviceMemory allocate_shared(int64_t bytes) = 0;  // returns zeroed host memory that the device can write
  virtual void* stream() const = 0;                         // returns the cudaStream_t
  virtual int multiprocessors() const = 0;
  // Returns a function that computes the product. The plan is tuned at the first call. The function is empty if the
  // library cannot add the bias.
  virtual std::function<void(const void* a, const void* b, void* c)> gemm(const Gemm& g) = 0;
  // Returns a product with an epilogue that takes one launch; null if the library has none.
  virtual std::shared_ptr<LibraryProduct> product(const EpilogueProduct&) { return nullptr; }
  // Returns a convolution planned by a library; null if there is no library or no plan.
  virtual std::shared_ptr<LibraryConvolution> convolution(const Convolution&) { return nullptr; }
  // Returns attention planned by a library; null if there is no library or no plan.
  virtual std::shared_ptr<LibraryAttention> attention(const Attention&) { return nullptr; }
  // Returns a kernel and starts to compile it in the background. The kernel is empty if the device has no compiler.
  virtual GeneratedKernel compile(const GeneratedSource&) { return {}; }
  // Returns whether the library is used for work with this TimedLibrary::key(); nullopt if that is not decided.
  // Decisions for an empty key are not stored.
  std::optional<bool> stored_decision(const std::string& key) const {
    const auto it = decisions_.find(key);
    return it == decisions_.end() ? std::nullopt : std::optional<bool>(it->second);
  }
  void store_decision(const std::string& key, bool used) {
    if (!key.empty()) decisions_[key] = used;
  }
  // Called once per step, after its launches. Waits until all steps but the last `ahead` are finished, which bounds the
  // delay of reports to the host.
  virtual void pace(int ahead) = 0;
  // Returns false if launches are listed but nothing is computed (tests/emulator/dry_device.h).
  virtual bool computes() const { return true; }
  // Called after every launch. The emulator keeps a list, the real device checks for errors.
  virtual void launched(const char* kernel, int64_t blocks, int threads) = 0;

 protected:
  const void* raised() const { return flag_.get(); }  // address of the index flag; null if there are no checks

 private:
  struct Check {
    IndexBound bound;
    std::string what;
  };
  std::map<std::string, bool> decisions_;
  std::vector<Check> checks_;
  DeviceMemory flag_;
  int64_t unvalidated_ = 0;
};

[[noreturn]] void no_fp64(const KernelArgs& a);  // throws E_DTYPE (Exit::unsupported): no fp64 on CUDA

inline CudaDevice& device_of(const KernelArgs& a) { return static_cast<CudaDevice&>(*a.device); }

}  // namespace amp::cuda
