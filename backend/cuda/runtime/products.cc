// Matrix products by cuBLASLt. A plan is made once per shape. When a plan first runs, the library's candidate
// algorithms are timed on the real operands, unless a choice is already stored on disk. The fastest algorithm is kept
// in memory and on disk. cuBLASLt is column-major: a row-major product c = a b is requested as c' = b' a', with a and b
// exchanged.
#include "backend/cuda/runtime/products.h"

#include <optional>
#include <vector>

#include "backend/cuda/library_product.h"
#include "backend/cuda/runtime/memory.h"
#include "backend/cuda/runtime/timing.h"
#include "base/error.h"
#include "base/hex.h"

namespace amp::cuda {

namespace {

void ensure(cublasStatus_t s, const char* what) {
  if (s != CUBLAS_STATUS_SUCCESS) fail(Exit::internal, "E_CUDA_LAUNCH", cat(what, ": ", cublasLtGetStatusString(s)));
}

cudaDataType_t cuda_type(DType t) {
  switch (t) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      bug(cat("a CUDA product of ", name_of(t)));
  }
}

std::string key_of(const Gemm& g, bool tf32) {
  return cat(g.m, 'x', g.n, 'x', g.k, '*', g.batch, g.trans_a ? " T" : " N", g.trans_b ? "T " : "N ", name_of(g.in),
             '>', name_of(g.out), ' ', g.lda, ',', g.ldb, ',', g.ldc, ' ', g.stride_a, ',', g.stride_b, ',', g.stride_c,
             g.beta != 0 ? " +" : "", g.bias ? " bias" : "", tf32 ? " tf32" : "");
}

const char* key_of(Epilogue e) {
  switch (e) {
    case Epilogue::sums_a:
      return " sums_a";
    case Epilogue::sums_b:
      return " sums_b";
    case Epilogue::gelu:
      return " gelu";
    case Epilogue::gelu_gradient:
      return " dgelu";
  }
  return "";
}

// Returns cuBLASLt's constant for the epilogue. cuBLASLt's matrix A is b, and its matrix B is a.
cublasLtEpilogue_t library_epilogue(const EpilogueProduct& p) {
  switch (p.epilogue) {
    case Epilogue::sums_a:
      return CUBLASLT_EPILOGUE_BGRADB;
    case Epilogue::sums_b:
      return CUBLASLT_EPILOGUE_BGRADA;
    case Epilogue::gelu:
      return p.gemm.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::gelu_gradient:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

std::span<uint8_t> bytes_of(cublasLtMatmulAlgo_t& algorithm) {
  return {reinterpret_cast<uint8_t*>(&algorithm), sizeof algorithm};
}

// Returns the number of elements from the first to the last element of the result.
int64_t extent_of_c(const Gemm& g) { return (g.batch - 1) * g.stride_c + (g.m - 1) * (g.ldc ? g.ldc : g.n) + g.n; }

}  // namespace

// cuBLASLt is column-major: a row-major (m, n) matrix is described as an (n, m) matrix. The product c = a b is
// requested as c' = b' a'.
struct Products::Plan {
  Gemm g;
  cublasLtMatmulDesc_t op = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  std::vector<cublasLtMatmulAlgo_t> candidates;  // the one that is probably fastest is first
  cublasLtMatmulAlgo_t chosen{};
  bool tuned = false;
  std::optional<Epilogue> epilogue;

  ~Plan() {
    cublasLtMatrixLayoutDestroy(a);
    cublasLtMatrixLayoutDestroy(b);
    cublasLtMatrixLayoutDestroy(c);
    cublasLtMatmulDescDestroy(op);
  }
};

Products::Products(cudaStream_t stream, const std::string& gpu, bool tf32)
    : stream_(stream), tf32_(tf32), choices_(cat("algorithms-", gpu, '-', cublasLtGetVersion(), ".txt")) {
  ensure(cublasLtCreate(&handle_), "opening cuBLASLt");
  amp::cuda::ensure(cudaMalloc(&workspace_, kWorkspace), "allocating the products' workspace");
}

Products::~Products() {
  plans_.clear();
  cudaFree(workspace_);
  cublasLtDestroy(handle_);
}

namespace {

cublasLtMatmulPreference_t preference_for(const Gemm& g, size_t workspace) {
  cublasLtMatmulPreference_t preference = nullptr;
  ensure(cublasLtMatmulPreferenceCreate(&preference), "asking for algorithms");
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                       sizeof workspace);
  // The matrices of a batch may begin at any multiple of the stride. A plan may assume only the alignment that all of
  // them have.
  const uint32_t alignment = 16;
  const auto aligned = [&](int64_t stride, DType t) {
    return stride * size_of(t) % alignment == 0 ? alignment : static_cast<uint32_t>(size_of(t));
  };
  const uint32_t at_a = aligned(g.stride_b, g.in), at_b = aligned(g.stride_a, g.in), at_c = aligned(g.stride_c, g.out);
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &at_a, sizeof at_a);
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &at_b, sizeof at_b);
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &at_c, sizeof at_c);
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &at_c, sizeof at_c);
  // If the library splits a product along k, the partial sums are added in fp32, whatever the type of the result is.
  const uint32_t reduction =
      g.out == DType::f32 ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction,
                                       sizeof reduction);
  return preference;
}

}  // namespace

void Products::describe(Plan& p, const Gemm& g, const EpilogueProduct* more) const {
  const cublasComputeType_t compute = g.in == DType::f32 && tf32_ ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  ensure(cublasLtMatmulDescCreate(&p.op, compute, CUDA_R_32F), "describing a product");
  const auto set = [&](cublasLtMatmulDescAttributes_t what, const auto& value) {
    ensure(cublasLtMatmulDescSetAttribute(p.op, what, &value, sizeof value), "describing a product");
  };
  const cublasOperation_t ta = g.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N, tb = g.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  set(CUBLASLT_MATMUL_DESC_TRANSA, ta);
  set(CUBLASLT_MATMUL_DESC_TRANSB, tb);
  if (more) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, library_epilogue(*more));
    const bool sums = more->epilogue == Epilogue::sums_a || more->epilogue == Epilogue::sums_b;
    if (sums) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
    if (!sums) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, cuda_type(g.out));
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, g.n);
    }
    // The library may find no algorithm for an epilogue without a pointer. workspace_ is a placeholder; run() sets the
    // real pointer.
    set(sums ? CUBLASLT_MATMUL_DESC_BIAS_POINTER : CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, workspace_);
  } else if (g.bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  }
  if (g.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.bias);
  const auto layout = [&](cublasLtMatrixLayout_t& l, DType type, int64_t rows, int64_t columns, int64_t ld,
                          int64_t stride) {
    ensure(cublasLtMatrixLayoutCreate(&l, cuda_type(type), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                                      ld),
           "describing a matrix");
    const int32_t batch = static_cast<int32_t>(g.batch);
    ensure(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
           "describing a batch");
    ensure(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
           "describing a batch");
  };
  const int64_t lda = g.lda       ? g.lda
                      : g.trans_a ? g.m
                                  : g.k,
                ldb = g.ldb       ? g.ldb
                      : g.trans_b ? g.k
                                  : g.n,
                ldc = g.ldc ? g.ldc : g.n;
  layout(p.a, g.in, g.trans_b ? g.k : g.n, g.trans_b ? g.n : g.k, ldb, g.stride_b);
  layout(p.b, g.in, g.trans_a ? g.m : g.k, g.trans_a ? g.k : g.m, lda, g.stride_a);
  layout(p.c, g.out, g.n, g.m, ldc, g.stride_c);
}

std::shared_ptr<Products::Plan> Products::make_plan(const Gemm& g, const EpilogueProduct* more) const {
  auto p = std::make_shared<Plan>();
  p->g = g;
  if (more) p->epilogue = more->epilogue;
  describe(*p, g, more);
  const cublasLtMatmulPreference_t preference = preference_for(g, kWorkspace);
  int found = 0;
  std::vector<cublasLtMatmulHeuristicResult_t> results(8);
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, p->op, p->a, p->b, p->c, p->c, preference, static_cast<int>(results.size()), results.data(), &found);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status == CUBLAS_STATUS_SUCCESS) {
    results.resize(static_cast<size_t>(found));
    for (const cublasLtMatmulHeuristicResult_t& r : results)
      if (r.state == CUBLAS_STATUS_SUCCESS) p->candidates.push_back(r.algo);
  }
  if (p->candidates.empty()) {
    if (more || g.bias) return nullptr;  // the caller then applies the bias or the epilogue itself
    fail(Exit::unsupported, "E_CUDA_PRODUCT", cat("cuBLASLt has no algorithm for the product ", key_of(g, tf32_)));
  }
  p->chosen = p->candidates.front();
  return p;
}

cublasStatus_t Products::run(Plan& p, const cublasLtMatmulAlgo_t& algorithm, const void* a, const void* b, void* c,
                             void* extra) const {
  if (p.epilogue) {
    const bool sums = *p.epilogue == Epilogue::sums_a || *p.epilogue == Epilogue::sums_b;
    const auto where = sums ? CUBLASLT_MATMUL_DESC_BIAS_POINTER : CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER;
    const cublasStatus_t s = cublasLtMatmulDescSetAttribute(p.op, where, &extra, sizeof extra);
    if (s != CUBLAS_STATUS_SUCCESS) return s;
  }
  const float alpha = static_cast<float>(p.g.alpha), beta = static_cast<float>(p.g.beta);
  return cublasLtMatmul(handle_, p.op, &alpha, b, p.a, a, p.b, &beta, c, p.c, c, p.c, &algorithm, workspace_,
                        kWorkspace, stream_);
}

// Times the candidate algorithms in a CUDA graph, as in a recorded step, and keeps the fastest. A product that adds to
// its result is timed on scratch memory of the same size, filled with zeros.
void Products::tune(Plan& p, const std::string& key, const void* a, const void* b, void* c, void* extra) {
  if (is_capturing(stream_)) return;  // while recording, the library's first choice is used
  p.tuned = true;
  if (p.candidates.size() < 2) return;
  void* scratch = nullptr;
  if (p.g.beta != 0) {
    const size_t bytes = static_cast<size_t>(extent_of_c(p.g) * size_of(p.g.out));
    if (cudaMalloc(&scratch, bytes) != cudaSuccess) {
      cudaGetLastError();  // no memory for scratch: the library's first choice is used
      return;
    }
    amp::cuda::ensure(cudaMemsetAsync(scratch, 0, bytes, stream_), "clearing a product's scratch");
    c = scratch;
  }
  std::optional<double> best;
  for (const cublasLtMatmulAlgo_t& candidate : p.candidates) {
    bool ran = true;
    const auto once = [&] { ran = ran && run(p, candidate, a, b, c, extra) == CUBLAS_STATUS_SUCCESS; };
    once();
    if (!ran) continue;  // the library refuses the algorithm for these operands
    const double ms = milliseconds(stream_, once);
    if (!ran || (best && ms >= *best)) continue;
    best = ms;
    p.chosen = candidate;
  }
  cudaFree(scratch);
  choices_.keep(key, to_hex(bytes_of(p.chosen)));
}

bool Products::recall(Plan& p, const std::string& key) {
  const std::optional<std::string> known = choices_.find(key);
  cublasLtMatmulAlgo_t algorithm{};
  cublasLtMatmulHeuristicResult_t result{};
  if (!known || !from_hex(*known, bytes_of(algorithm))) return false;
  // Checks the stored algorithm: a different driver may refuse it.
  if (cublasLtMatmulAlgoCheck(handle_, p.op, p.a, p.b, p.c, p.c, &algorithm, &result) != CUBLAS_STATUS_SUCCESS ||
      result.state != CUBLAS_STATUS_SUCCESS || result.workspaceSize > kWorkspace)
    return false;
  p.chosen = algorithm;
  return p.tuned = true;
}

cublasStatus_t Products::tuned_run(Plan& p, const std::string& key, const void* a, const void* b, void* c,
                                   void* extra) {
  // Another process or device may have stored a choice meanwhile. Equal choices give equal bits.
  if (!p.tuned && !recall(p, key)) tune(p, key, a, b, c, extra);
  return run(p, p.chosen, a, b, c, extra);
}

std::function<void(const void*, const void*, void*)> Products::prepare(const Gemm& g) {
  const std::string key = key_of(g, tf32_);
  std::shared_ptr<Plan> plan;
  const auto known = plans_.find(key);
  if (known != plans_.end() && !g.bias && known->second->g.alpha == g.alpha) {
    plan = known->second;
  } else {
    plan = make_plan(g, nullptr);
    if (!plan) return nullptr;
    if (!g.bias) plans_[key] = plan;  // a bias's address is part of its plan, so the plan is not shared
  }
  recall(*plan, key);
  return [this, plan, key](const void* a, const void* b, void* c) {
    ensure(tuned_run(*plan, key, a, b, c, nullptr), "multiplying matrices");
  };
}

// Each object needs a separate plan: the plan contains the address of the epilogue's operand.
class Products::WithEpilogue final : public LibraryProduct {
 public:
  WithEpilogue(Products& products, std::shared_ptr<Plan> plan, std::string key)
      : products_(products), plan_(std::move(plan)), key_(std::move(key)) {
    products_.recall(*plan_, key_);
  }
  std::string name() const override { return "cuBLASLt"; }
  std::string key() const override { return cat("product ", key_); }
  double milliseconds(const Kernel& work) override { return amp::cuda::milliseconds(products_.stream_, work); }
  std::optional<bool> known_faster() const override {
    const std::optional<std::string> choice = products_.choices_.find(key_ + kFaster);
    if (!choice) return std::nullopt;
    return *choice == "yes";
  }
  void remember(bool faster) override { products_.choices_.keep(key_ + kFaster, faster ? "yes" : "no"); }
  bool run(const void* a, const void* b, void* c, void* extra) override {
    return products_.tuned_run(*plan_, key_, a, b, c, extra) == CUBLAS_STATUS_SUCCESS;
  }
  bool may_wait() const override { return !is_capturing(products_.stream_); }

 private:
  static constexpr const char* kFaster = " instead of two launches";
  Products& products_;
  std::shared_ptr<Plan> plan_;
  std::string key_;
};

std::shared_ptr<LibraryProduct> Products::prepare(const EpilogueProduct& p) {
  std::shared_ptr<Plan> plan = make_plan(p.gemm, &p);
  if (!plan) return nullptr;
  return std::make_shared<WithEpilogue>(*this, std::move(plan), key_of(p.gemm, tf32_) + key_of(p.epilogue));
}

}  // namespace amp::cuda
