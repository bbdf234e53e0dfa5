// Matrix products by cuBLASLt: one plan per shape, tuned at first use. The bytes of the chosen algorithm are stored on
// disk per GPU and library version, because its rank among the library's candidates may change.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "backend/autotune_cache.h"
#include "backend/cuda/device.h"

namespace amp::cuda {

class Products {
 public:
  // gpu: part of the cache file's name. tf32: fp32 products may round their operands to TF32.
  Products(cudaStream_t stream, const std::string& gpu, bool tf32);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  std::function<void(const void*, const void*, void*)> prepare(const Gemm& g);  // empty if it does not support the bias
  std::shared_ptr<LibraryProduct> prepare(const EpilogueProduct& p);            // null if it is not supported

 private:
  struct Plan;
  class WithEpilogue;
  void describe(Plan& p, const Gemm& g, const EpilogueProduct* more) const;  // sets the plan's operation and layouts
  // Returns null if the library has no algorithm for a product with a bias or an epilogue. Throws E_CUDA
  // (Exit::unsupported) if the library has no algorithm for a plain product.
  std::shared_ptr<Plan> make_plan(const Gemm& g, const EpilogueProduct* more) const;
  bool recall(Plan& plan, const std::string& key);  // reads the stored algorithm; false: none, or the driver refuses it
  void tune(Plan& plan, const std::string& key, const void* a, const void* b, void* c, void* extra);
  cublasStatus_t tuned_run(Plan& plan, const std::string& key, const void* a, const void* b, void* c, void* extra);
  cublasStatus_t run(Plan& plan, const cublasLtMatmulAlgo_t& algorithm, const void* a, const void* b, void* c,
                     void* extra) const;

  static constexpr size_t kWorkspace = 32 << 20;  // bytes; NVIDIA's recommendation for Hopper
  cudaStream_t stream_;
  bool tf32_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  mutable AutotuneCache choices_;
  std::map<std::string, std::shared_ptr<Plan>> plans_;
};

}  // namespace amp::cuda
