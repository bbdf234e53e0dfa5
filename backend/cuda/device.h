// CudaDevice: what the real device (runtime/runtime.cc) and the devices of tests (tests/emulator) share, and what
// kernels ask of each: a stream to launch on, and matrix products.
// Nothing here needs the headers of CUDA.
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

// Row-major matrices, `batch` of them one behind the other at their strides (in elements; 0: the same one for all):
//   c (m, n) = alpha a (m, k) b (k, n) + beta c + bias,   a stored (k, m) when trans_a, b stored (n, k) when trans_b.
// a and b are of one type (fp32, fp16, bf16); c is of that type or fp32. Sums are fp32.
struct Gemm {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  bool trans_a = false, trans_b = false;
  // of one product too, where its addresses vary from call to call: they are
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  // multiples of these from 64-byte boundaries, and plans rely on
  // the alignment
  int64_t lda = 0, ldb = 0, ldc = 0;  // elements from one stored row to the next; 0: rows lie close
  DType in = DType::f32, out = DType::f32;
  double alpha = 1, beta = 0;  // beta: 0 or 1
  const void* bias = nullptr;  // (n) of `out`'s type; null: none
};

struct Convolution;  // convolution.h
class LibraryConvolution;
struct Attention;  // attention.h
class LibraryAttention;
struct EpilogueProduct;  // library_product.h
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
  std::unique_ptr<DeviceRanks> join(const RankContact& contact) override;  // by NCCL
  Kernel check_indices(const Tensor& indices, const IndexBound& bound, const std::string& what) override;

  int64_t unvalidated() const override { return unvalidated_; }
  void proved_nothing() { ++unvalidated_; }

  // What check_indices() found, in device memory: 0, or an index out of bounds and which check it was. Sticky.
  int64_t* index_flag();
  // For what was read of it: clears the flag and ends with refuse_index(), unless it is 0.
  void heed(int64_t flag);

  virtual DeviceMemory allocate_shared(int64_t bytes) = 0;  // the host's memory that the device can write; zeroed
  virtual void* stream() const = 0;                         // cudaStream_t
  virtual int multiprocessors() const = 0;
  // A product with its plan chosen; the plan is tuned at first use. Empty where the library cannot add this bias.
  virtual std::function<void(const void* a, const void* b, void* c)> gemm(const Gemm& g) = 0;
  // A product and more in one launch; null where the library has none.
  virtual std::shared_ptr<LibraryProduct> product(const EpilogueProduct&) { return nullptr; }
  // A convolution planned by a library; null where there is none, or none for it.
  virtual std::shared_ptr<LibraryConvolution> convolution(const Convolution&) { return nullptr; }
  // The same of attention.
  virtual std::shared_ptr<LibraryAttention> attention(const Attention&) { return nullptr; }
  // A kernel from its source, compiled meanwhile; empty where the device compiles nothing.
  virtual GeneratedKernel compile(const GeneratedSource&) { return {}; }
  // What was found out about a library's version of something, by TimedLibrary::key(): whether it is used. Nothing is
  // known of an empty key.
  std::optional<bool> judged(const std::string& key) const {
    const auto it = judgements_.find(key);
    return it == judgements_.end() ? std::nullopt : std::optional<bool>(it->second);
  }
  void judge(const std::string& key, bool used) {
    if (!key.empty()) judgements_[key] = used;
  }
  // Called once a step: returns when the device has done all but what was asked of it since the `ahead` calls before,
  // so that what the host learns is never older.
  virtual void pace(int ahead) = 0;
  // False: launches are noted, nothing is computed (tests/emulator/dry_device.h).
  virtual bool computes() const { return true; }
  // Told of every launch: the emulator keeps a list, the real device checks for errors.
  virtual void launched(const char* kernel, int64_t blocks, int threads) = 0;

 protected:
  const void* raised() const { return flag_.get(); }  // null: nothing checks

 private:
  struct Check {
    IndexBound bound;
    std::string what;
  };
  std::map<std::string, bool> judgements_;
  std::vector<Check> checks_;
  DeviceMemory flag_;
  int64_t unvalidated_ = 0;
};

[[noreturn]] void no_fp64(const KernelArgs& a);  // CUDA kernels compute in fp32: E_DTYPE

inline CudaDevice& device_of(const KernelArgs& a) { return static_cast<CudaDevice&>(*a.device); }

}  // namespace amp::cuda
