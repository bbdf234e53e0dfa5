// A CudaDevice without a GPU: its memory is the host's, its kernels run in the emulator, its products are plain loops.
// It can record all calls, so that tests check their order and geometry.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/device.h"

namespace amp::cuda {

struct Event {
  enum Kind { launch, gemm, upload, download, copy, fill, record, replay } kind;
  std::string what;  // a kernel's type name
  int64_t blocks = 0;
  int threads = 0;
  int64_t bytes = 0;
};

class EmulatedDevice : public CudaDevice {
 public:
  // chains: NHWC regions are formed (ops/passes/channels_last.h); chains_fp32: also in fp32, as with TF32.
  bool chains = true, chains_fp32 = false;
  DeviceTraits traits() const override {
    DeviceTraits t = CudaDevice::traits();
    t.chains_low = chains;
    t.chains_fp32 = chains_fp32;
    return t;
  }
  virtual std::vector<Event>& events() = 0;  // tests clear it
  virtual void keep_events(bool on) = 0;     // initially off
  // A fake library of products with epilogues (initially none), and whether gemm() refuses a bias.
  std::function<std::shared_ptr<LibraryProduct>(const EpilogueProduct&)> products;
  bool refuses_bias = false;
  std::shared_ptr<LibraryProduct> product(const EpilogueProduct& p) override {
    return products ? products(p) : nullptr;
  }
  int paced = 0, ahead = 0;  // number of calls of pace(), and its last argument
  void pace(int bound) override {
    ++paced;
    ahead = bound;
  }
  int64_t memory_limit = 0;  // bytes, including arenas; E_OOM above it. 0: no limit
  // A fake library of convolutions; initially none.
  std::function<std::shared_ptr<LibraryConvolution>(const Convolution&)> library;
  // Compiles generated kernels. Initially empty: kernels are interpreted.
  std::function<GeneratedKernel(const GeneratedSource&)> compiler;
  GeneratedKernel compile(const GeneratedSource& s) override { return compiler ? compiler(s) : GeneratedKernel{}; }
  std::shared_ptr<LibraryConvolution> convolution(const Convolution& c) override {
    return library ? library(c) : nullptr;
  }
  // A fake library of attention; initially none.
  std::function<std::shared_ptr<LibraryAttention>(const Attention&)> attention_library;
  std::shared_ptr<LibraryAttention> attention(const Attention& a) override {
    return attention_library ? attention_library(a) : nullptr;
  }
};

std::unique_ptr<EmulatedDevice> make_emulated_device();

}  // namespace amp::cuda
