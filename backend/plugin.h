// The CUDA plugin libonnx_amp_cuda.so. It is loaded at run time from the executable's folder, so that one binary
// runs on machines with and without CUDA.
#pragma once

#include <memory>
#include <string>

#include "backend/device.h"

namespace amp {

// The NVIDIA libraries that a device may use. Built-in kernels replace the excluded ones.
struct PluginLibraries {
  bool cublaslt = true, cudnn = true, nvrtc = true;
};

// Parses a comma-separated list such as "cublaslt,cudnn", or "none". An empty or null string selects all libraries.
// Throws E_USAGE for an unknown name.
PluginLibraries plugin_libraries(const char* names);

struct PluginOptions {
  int ordinal = 0;            // index of the device
  bool tf32 = false;          // fp32 products may round their operands to TF32
  bool graphs = true;         // record CUDA graphs
  PluginLibraries libraries;  // set by open_cuda() from ONNX_AMP_CUDA_LIBRARIES
};

constexpr int kPluginAbi = 9;  // must be increased with every change of Device, KernelArgs, Graph or Error
struct PluginMemory {
  int64_t total = 0, free = 0;  // bytes of the device at the time of the call
  // Memory that libraries and their workspaces took when the device was opened, without the driver's context.
  int64_t opened = 0;
  int64_t peak = 0;  // the largest amount that was allocated through the Device at any time
};

struct PluginApi {
  int abi;                                // must remain the first member
  Device* (*open)(const PluginOptions&);  // throws E_DEVICE_UNAVAILABLE with the reason
  bool (*has_kernel)(const char* op);     // takes the name of a core operator; needs no driver
  PluginMemory (*memory)(const Device&);  // takes a device that open() returned
  int64_t (*reserve)(const Graph&);       // an upper bound of what libraries may still allocate while a graph runs
};

// True if NVIDIA's driver is installed. Call it before load_plugin(), because the plugin's libraries take 150 MB of
// memory.
bool has_cuda_driver();

// Loads the plugin without opening a device, so it works without a driver. Throws E_DEVICE_UNAVAILABLE as open_cuda()
// does.
const PluginApi& load_plugin();

// Loads the plugin and opens a device. Throws E_DEVICE_UNAVAILABLE with the reason: no plugin, missing libraries, no
// driver, or no GPU. The plugin is where find_plugin_file() (base/plugin_folders.h) finds it, unless
// ONNX_AMP_CUDA_PLUGIN names another file. ONNX_AMP_CUDA_LIBRARIES lists the libraries that the device may use.
std::shared_ptr<Device> open_cuda(const PluginOptions& options);

}  // namespace amp
