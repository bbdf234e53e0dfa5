// The CUDA plugin: libonnx_amp_cuda.so, loaded at run time from beside the executable, so that one binary runs
// everywhere.
#pragma once

#include <memory>
#include <string>

#include "backend/device.h"

namespace amp {

// Which of NVIDIA's libraries a device uses. The built-in kernels replace the others.
struct PluginLibraries {
  bool cublaslt = true, cudnn = true, nvrtc = true;
};

// Reads "none", or names as in "cublaslt,cudnn"; empty or null: all of them. E_USAGE for another name.
PluginLibraries plugin_libraries(const char* names);

struct PluginOptions {
  int ordinal = 0;            // which device
  bool tf32 = false;          // fp32 products may round their operands to TF32
  bool graphs = true;         // record CUDA graphs
  PluginLibraries libraries;  // set by open_cuda() from ONNX_AMP_CUDA_LIBRARIES
};

constexpr int kPluginAbi = 9;  // counts up with every change of Device, KernelArgs, Graph or Error
struct PluginMemory {
  int64_t total = 0, free = 0;  // bytes of the device, now
  int64_t opened = 0;           // what opening it took beside the driver's context: libraries and their workspaces
  int64_t peak = 0;             // the most that was allocated through the Device at a time
};

struct PluginApi {
  int abi;                                // stays the first member
  Device* (*open)(const PluginOptions&);  // usage error E_DEVICE_UNAVAILABLE with the reason
  bool (*has_kernel)(const char* op);     // of a core operator; needs no driver
  PluginMemory (*memory)(const Device&);  // of a device that open() gave
  int64_t (*reserve)(const Graph&);       // what libraries may still ask for while a graph runs: an upper bound
};

// Is NVIDIA's driver on this machine? Asked before the plugin is loaded, whose libraries take 150 MB.
bool has_cuda_driver();

// Loads the plugin and opens nothing, so it works without a driver. E_DEVICE_UNAVAILABLE as below.
const PluginApi& load_plugin();

// Loads the plugin and opens a device. E_DEVICE_UNAVAILABLE says why not: no plugin, its libraries are missing, no
// driver, no GPU.
// Looked for beside the executable, then in ../lib; ONNX_AMP_CUDA_PLUGIN names another file, ONNX_AMP_CUDA_LIBRARIES
// the libraries that the device may use.
std::shared_ptr<Device> open_cuda(const PluginOptions& options);

}  // namespace amp
