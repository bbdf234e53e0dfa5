#include "run/prepare/device.h"

#include <cstdlib>
#include <cstring>
#include <memory>

#include "backend/plugin.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/text.h"
#include "run/spec/spec.h"

namespace amp {

// Returns the index of this process among the ranks of its machine, from the launcher's environment variables.
static std::optional<int64_t> local_rank() {
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    const char* const value = std::getenv(name);
    if (const auto n = value ? parse_integer(value) : std::nullopt; n && *n >= 0) return *n;
  }
  return std::nullopt;
}

static int gpu_of(const DistributionSpec& distribution) {
  const int64_t place = local_rank().value_or(0);
  if (distribution.gpus.empty()) {
    // If CUDA_VISIBLE_DEVICES names one GPU, the launcher assigned it to this rank.
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return visible && *visible && !std::strchr(visible, ',') ? 0 : static_cast<int>(place);
  }
  const std::vector<std::string> gpus = split(distribution.gpus, ',');
  if (gpus.size() > 1 && !local_rank())
    fail(Exit::usage, "E_RANKS_SETTING", cat("`gpus` ", distribution.gpus, ": this computes on one GPU"),
         cat("`gpus` ", gpus[0], "; only training takes several"));
  if (place >= static_cast<int64_t>(gpus.size()))
    fail(Exit::usage, "E_RANKS_SETTING",
         cat("`gpus` ", distribution.gpus, " names ", gpus.size(), ", and this rank has place ", place,
             " on its machine"),
         "name a GPU for each rank of a machine, or leave `gpus` out");
  return std::stoi(gpus[static_cast<size_t>(place)]);
}

static std::shared_ptr<Device> open(const DeviceSpec& spec, const DistributionSpec& distribution) {
  PluginOptions o;
  o.ordinal = gpu_of(distribution);
  o.tf32 = spec.tf32;
  if (const char* off = std::getenv("ONNX_AMP_CUDA_GRAPHS"); off && std::string(off) == "0") o.graphs = false;
  return open_cuda(o);
}

Device& choose_device(const DeviceSpec& spec, const DistributionSpec& distribution, bool fp64, const Log& log) {
  const std::string& asked = spec.device;
  if (asked == "cuda" && fp64)
    fail(Exit::usage, "E_FLAG_VALUE", "`dtype` fp64 is not computed on CUDA", "use `device` cpu");
  if (asked == "cpu" || fp64 || (asked == "auto" && distribution.gpus.empty() && !has_cuda_driver()))
    return cpu_device();
  // The device is not destroyed, because at exit the CUDA libraries may be unloaded first.
  static auto& device = *new std::shared_ptr<Device>;
  if (device) return *device;
  try {
    device = open(spec, distribution);
  } catch (const Error& e) {
    if (asked == "cuda" || !distribution.gpus.empty() || e.id() != "E_DEVICE_UNAVAILABLE") throw;
    return cpu_device();
  }
  log.info(cat("device: ", device->description()));
  return *device;
}

std::optional<PluginMemory> memory_of(const Device& device) {
  if (&device == &cpu_device()) return {};
  return load_plugin().memory(device);
}

int64_t library_bytes(const Device& device, const Graph& g) {
  return &device == &cpu_device() ? 0 : load_plugin().reserve(g);
}

}  // namespace amp
