// The dry device records the work of a step without computing it. Memory is an address without storage. Kernels of
// nodes are replaced by records with the bytes and operations of backend/node_work.h. Its libraries accept every
// request.
#include "tests/emulator/dry_device.h"

#include <cstring>

#include "backend/cuda/convolution.h"
#include "backend/cuda/library_product.h"
#include "backend/node_work.h"
#include "base/error.h"
#include "base/host_tensor.h"

namespace amp::cuda {

namespace {

class DryArena final : public Arena {
 public:
  explicit DryArena(uintptr_t at) { base_ = reinterpret_cast<void*>(at); }

 private:
  void grow(int64_t) override {}
};

// A library that accepts every product.
class DryProduct final : public LibraryProduct {
 public:
  static constexpr const char* kKey = "dry";
  explicit DryProduct(std::function<void()> note) : note_(std::move(note)) {}
  std::string name() const override { return "a library"; }
  bool may_wait() const override { return false; }
  std::string key() const override { return kKey; }
  double milliseconds(const Kernel&) override { return 0; }
  std::optional<bool> known_faster() const override { return true; }
  void remember(bool) override {}
  bool run(const void*, const void*, void*, void*) override {
    note_();
    return true;
  }

 private:
  std::function<void()> note_;
};

// A library that accepts every convolution.
class DryConvolution final : public LibraryConvolution {
 public:
  explicit DryConvolution(std::function<void()> note) : note_(std::move(note)) {}
  std::string name() const override { return "a library"; }
  bool may_wait() const override { return false; }
  std::string key() const override { return DryProduct::kKey; }
  bool run(const ConvolutionOperands&) override {
    note_();
    return true;
  }

 private:
  std::function<void()> note_;
};

// Shortens a kernel's name, a mangled type: "...ForEachINS0_12_GLOBAL__N_110ClearTermsE" becomes "ClearTerms".
std::string short_name(const std::string& mangled) {
  std::string last;
  for (size_t i = 0; i < mangled.size();) {
    if (mangled[i] < '0' || mangled[i] > '9') {
      ++i;
      continue;
    }
    const size_t n = std::strtoul(mangled.c_str() + i, nullptr, 10);
    while (i < mangled.size() && mangled[i] >= '0' && mangled[i] <= '9') ++i;
    if (n == 0 || i + n > mangled.size()) continue;
    const std::string word = mangled.substr(i, n);
    if (word[0] != '_' && word != "amp" && word != "cuda" && word != "update_kernels" && word != "ForEach" &&
        word != "RowKernel")
      return word;
    i += n;
  }
  return mangled;
}

class Dry final : public DryDevice {
 public:
  explicit Dry(const DryOptions& options) : options_(options) { store_decision(DryProduct::kKey, true); }

  std::vector<Work>& work() override { return work_; }
  bool recorded() const override { return recorded_; }
  bool computes() const override { return false; }
  std::string description() const override { return "a described CUDA device"; }
  PrepareKernel kernel(std::string_view op) const override {
    if (!find_kernel(DeviceKind::cuda, op)) return nullptr;
    return op.size() > 2 && op.substr(op.size() - 2) == "+=" ? prepare<true> : prepare<false>;
  }

  DeviceMemory allocate(int64_t bytes) override {
    const uintptr_t at = next_;
    next_ += static_cast<uintptr_t>((bytes + 255) / 256 * 256);
    return DeviceMemory(reinterpret_cast<void*>(at), [](void*) {});
  }
  DeviceMemory allocate_shared(int64_t bytes) override {  // read by the host, so it needs storage
    auto memory = std::make_shared<std::vector<char>>(static_cast<size_t>(bytes));
    return DeviceMemory(memory, memory->data());
  }
  std::unique_ptr<Arena> make_arena() override { return std::make_unique<DryArena>(uintptr_t{1} << 44); }
  int64_t memory_in_use() const override { return static_cast<int64_t>(next_); }
  void synchronize() override {}
  void pace(int) override {}
  void upload(void*, const void*, int64_t bytes) override { note("upload", 0, 1, bytes); }
  void download(void* host, const void*, int64_t bytes) override {
    if (bytes > 0) std::memset(host, 0, static_cast<size_t>(bytes));
  }
  void copy(void*, const void*, int64_t bytes) override { note("copy", 0, bytes > 0 ? 1 : 0, 2 * bytes); }
  void fill(void*, uint8_t, int64_t bytes) override { note("clear", 0, bytes > 0 ? 1 : 0, bytes); }
  std::unique_ptr<Recording> record(const std::function<void()>& w) override {
    struct Again final : Recording {
      std::function<void()> work;
      void replay() override { work(); }
    };
    recorded_ = true;
    auto r = std::make_unique<Again>();
    r->work = w;
    return r;
  }

  void* stream() const override { return nullptr; }
  int multiprocessors() const override { return options_.multiprocessors; }
  void launched(const char* kernel, int64_t, int) override { note(short_name(kernel), 1, 0, 0); }
  std::function<void(const void*, const void*, void*)> gemm(const Gemm& g) override {
    return [this, g](const void*, const void*, void*) { product(g); };
  }
  std::shared_ptr<LibraryProduct> product(const EpilogueProduct& p) override {
    if (!options_.epilogues) return nullptr;
    return std::make_shared<DryProduct>([this, g = p.gemm] { product(g); });
  }
  std::shared_ptr<LibraryConvolution> convolution(const Convolution& what) override {
    convolutions_.push_back(what);
    return std::make_shared<DryConvolution>([this, what] { convolve(what); });
  }
  const std::vector<Convolution>& convolutions() const override { return convolutions_; }
  std::shared_ptr<LibraryAttention> attention(const Attention& what) override {
    attentions_.push_back(what);
    return nullptr;
  }
  const std::vector<Attention>& attentions() const override { return attentions_; }

 private:
  template <bool accumulate>
  static Kernel prepare(const KernelArgs& a) {
    auto& self = static_cast<Dry&>(*a.device);
    const std::string name = a.node.op->name + (accumulate ? "+=" : "");
    Work w;
    w.op = a.node.op->name;
    const NodeWork counted = node_work(a, accumulate);
    w.bytes = counted.bytes();
    w.flops = counted.flops;
    for (const Tensor& t : a.in) {
      if (t.data && (w.type == DType::f32 || is_low(t.dtype))) w.type = t.dtype;
      if (t.data && is_float(t.dtype) && is_low(t.dtype)) break;
    }
    return [&self, w, run = find_kernel(DeviceKind::cuda, name)(a)] {
      self.work_.push_back(w);
      self.inside_ = true;
      run();
      self.inside_ = false;
    };
  }

  void product(const Gemm& g) {
    const double flops = 2.0 * static_cast<double>(g.m * g.n) * static_cast<double>(g.k * g.batch);
    note("product", 1, 0, 0);
    Work& w = work_.back();
    w.products += flops;
    if (!inside_) w.flops += flops;
    w.type = g.in;
    w.shape +=
        cat(w.shape.empty() ? "" : ", ", g.m, 'x', g.n, 'x', g.k, g.batch > 1 ? cat('*', g.batch) : std::string());
  }
  void convolve(const Convolution& what) {
    const ConvShape& s = what.shape;
    note("convolution", 1, 0, 0);
    Work& w = work_.back();
    w.products += 2.0 * static_cast<double>(s.n * s.groups * s.m * s.out_size()) * static_cast<double>(s.c * s.taps());
    w.type = what.type;
    w.shape = key_of(what);
  }
  // Adds to the current node's work; outside of a node, makes a new entry.
  void note(const std::string& what, int64_t launches, int64_t copies, int64_t bytes) {
    if (!inside_) {
      work_.emplace_back();
      work_.back().op = what;
      work_.back().bytes = bytes;
    }
    work_.back().launches += launches;
    work_.back().copies += copies;
  }

  DryOptions options_;
  std::vector<Work> work_;
  std::vector<Attention> attentions_;
  std::vector<Convolution> convolutions_;
  bool inside_ = false, recorded_ = false;
  uintptr_t next_ = 1 << 20;
};

}  // namespace

std::unique_ptr<DryDevice> make_dry_device(const DryOptions& options) { return std::make_unique<Dry>(options); }

}  // namespace amp::cuda
