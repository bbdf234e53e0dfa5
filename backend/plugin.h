// The CUDA plugin libonnx_amp_cuda.so. It is loaded at run time from the executable's folder, so that one binary
// runs on machines with and without CUDA.
#pragma once

#include <memory>
#include <string>

#include "backend/device.h"

namespace amp {

// The NVIDIA libraries that a device uses. Built-in kernels replace the others.
struct PluginLibraries {
  bool cublaslt = true, cudnn = true, nvrtc = true;
};

// Parses "none", or names as in "cublaslt,cudnn". Empty or null: all of them. E_USAGE for an unknown name.
PluginLibraries plugin_libraries(const char* names);

struct PluginOptions {
  int ordinal = 0;            // index of the device
  bool tf32 = false;          // fp32 products may round their operands to TF32
  bool graphs = true;         // record CUDA graphs
  PluginLibraries libraries;  // set by open_cuda() from ONNX_AMP_CUDA_LIBRARIES
};

constexpr int kPluginAbi = 9;  // must be increased with every change of Device, KernelArgs, Graph or Error
struct PluginMemory {
  int64_t total = 0, free = 0;  // bytes of the device at this moment
  int64_t opened = 0;  // memory used by opening it, without the driver's context: libraries and their workspaces
  int64_t peak = 0;    // the largest amount allocated through the Device at a time
};

struct PluginApi {
  int abi;                                // must remain the first member
  Device* (*open)(const PluginOptions&);  // throws E_DEVICE_UNAVAILABLE with the reason
  bool (*has_kernel)(const char* op);     // of a core operator; needs no driver
  PluginMemory (*memory)(const Device&);  // of a device that open() returned
  int64_t (*reserve)(const Graph&);       // an upper bound of what libraries may still allocate while a graph runs
};

// True if NVIDIA's driver is installed. Checked before the plugin is loaded, whose libraries take 150 MB.
bool has_cuda_driver();

// Loads the plugin without opening a device, so it works without a driver. E_DEVICE_UNAVAILABLE as below.
const PluginApi& load_plugin();

// Loads the plugin and opens a device. E_DEVICE_UNAVAILABLE contains the reason: no plugin, missing libraries, no
// driver, no GPU. The plugin is searched in the executable's folder, then in ../lib. ONNX_AMP_CUDA_PLUGIN names
// another file, ONNX_AMP_CUDA_LIBRARIES the libraries that the device may use.
std::shared_ptr<Device> open_cuda(const PluginOptions& options);

}  // namespace amp
