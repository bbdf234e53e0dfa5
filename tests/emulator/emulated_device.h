// A CudaDevice without a GPU: its memory is the host's, its kernels run in the emulator, its products are plain loops.
// It keeps a list of everything that was asked of it, so that tests can look at order and geometry.
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
  // Chains of convolutions have their channels last (ops/passes/channels_last.h); those in fp32 too, as with TF32.
  bool chains = true, chains_fp32 = false;
  DeviceTraits traits() const override {
    DeviceTraits t = CudaDevice::traits();
    t.chains_low = chains;
    t.chains_fp32 = chains_fp32;
    return t;
  }
  virtual std::vector<Event>& events() = 0;  // cleared by whom it concerns
  virtual void keep_events(bool on) = 0;     // off at first
  // Stand for a library of products with epilogues (empty at first: there is none), and for one that adds no bias.
  std::function<std::shared_ptr<LibraryProduct>(const EpilogueProduct&)> products;
  bool refuses_bias = false;
  std::shared_ptr<LibraryProduct> product(const EpilogueProduct& p) override {
    return products ? products(p) : nullptr;
  }
  int paced = 0, ahead = 0;  // calls of pace(), and the last one's bound
  void pace(int bound) override {
    ++paced;
    ahead = bound;
  }
  int64_t memory_limit = 0;  // bytes, arenas included; 0: none. E_OOM beyond it
  // Stands for a library of convolutions; empty at first: there is none.
  std::function<std::shared_ptr<LibraryConvolution>(const Convolution&)> library;
  // Compiles generated kernels; empty at first: they are interpreted.
  std::function<GeneratedKernel(const GeneratedSource&)> compiler;
  GeneratedKernel compile(const GeneratedSource& s) override { return compiler ? compiler(s) : GeneratedKernel{}; }
  std::shared_ptr<LibraryConvolution> convolution(const Convolution& c) override {
    return library ? library(c) : nullptr;
  }
  // The same of attention.
  std::function<std::shared_ptr<LibraryAttention>(const Attention&)> attention_library;
  std::shared_ptr<LibraryAttention> attention(const Attention& a) override {
    return attention_library ? attention_library(a) : nullptr;
  }
};

std::unique_ptr<EmulatedDevice> make_emulated_device();

}  // namespace amp::cuda
