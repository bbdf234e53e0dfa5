// Defines cuDNN's functions: each forwards to the function of its name in the library, which is loaded at the first
// call. The plugin therefore opens on a machine without cuDNN, and models that do not need it run there. A function
// that is used but not listed here does not link.
#include <cudnn.h>
#include <dlfcn.h>

#include <string>

#include "base/cat.h"

namespace amp::cuda {

namespace {

struct Library {
  void* handle = nullptr;
  std::string missing;  // why the library is missing; empty if it is loaded

  Library() {
    handle = dlopen(cat("libcudnn.so.", CUDNN_MAJOR).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) missing = dlerror();
  }
};

const Library& library() {
  static const Library l;
  return l;
}

void* find(const char* function) { return library().handle ? dlsym(library().handle, function) : nullptr; }

}  // namespace

}  // namespace amp::cuda

#define ONNX_AMP_FORWARD(name, parameters, arguments)                                       \
  extern "C" cudnnStatus_t name parameters {                                                \
    static const auto function = reinterpret_cast<decltype(&name)>(amp::cuda::find(#name)); \
    return function ? function arguments : CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED;          \
  }

extern "C" size_t cudnnGetVersion() {
  static const auto function = reinterpret_cast<decltype(&cudnnGetVersion)>(amp::cuda::find("cudnnGetVersion"));
  return function ? function() : 0;
}
extern "C" const char* cudnnGetErrorString(cudnnStatus_t status) {
  static const auto function = reinterpret_cast<decltype(&cudnnGetErrorString)>(amp::cuda::find("cudnnGetErrorString"));
  return function ? function(status) : amp::cuda::library().missing.c_str();
}
extern "C" void cudnnGetLastErrorString(char* message, size_t size) {
  static const auto function =
      reinterpret_cast<decltype(&cudnnGetLastErrorString)>(amp::cuda::find("cudnnGetLastErrorString"));
  if (function)
    function(message, size);
  else if (size > 0)
    *message = 0;
}

ONNX_AMP_FORWARD(cudnnCreate, (cudnnHandle_t * handle), (handle))
ONNX_AMP_FORWARD(cudnnDestroy, (cudnnHandle_t handle), (handle))
ONNX_AMP_FORWARD(cudnnSetStream, (cudnnHandle_t handle, cudaStream_t streamId), (handle, streamId))
ONNX_AMP_FORWARD(cudnnGetStream, (cudnnHandle_t handle, cudaStream_t* streamId), (handle, streamId))
ONNX_AMP_FORWARD(cudnnBackendCreateDescriptor,
                 (cudnnBackendDescriptorType_t descriptorType, cudnnBackendDescriptor_t* descriptor),
                 (descriptorType, descriptor))
ONNX_AMP_FORWARD(cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t descriptor), (descriptor))
ONNX_AMP_FORWARD(cudnnBackendFinalize, (cudnnBackendDescriptor_t descriptor), (descriptor))
ONNX_AMP_FORWARD(cudnnBackendSetAttribute,
                 (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t attributeName,
                  cudnnBackendAttributeType_t attributeType, int64_t elementCount, const void* arrayOfElements),
                 (descriptor, attributeName, attributeType, elementCount, arrayOfElements))
ONNX_AMP_FORWARD(cudnnBackendGetAttribute,
                 (cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t attributeName,
                  cudnnBackendAttributeType_t attributeType, int64_t requestedElementCount, int64_t* elementCount,
                  void* arrayOfElements),
                 (descriptor, attributeName, attributeType, requestedElementCount, elementCount, arrayOfElements))
ONNX_AMP_FORWARD(cudnnBackendExecute,
                 (cudnnHandle_t handle, cudnnBackendDescriptor_t executionPlan, cudnnBackendDescriptor_t variantPack),
                 (handle, executionPlan, variantPack))
ONNX_AMP_FORWARD(cudnnBackendPopulateCudaGraph,
                 (cudnnHandle_t handle, cudnnBackendDescriptor_t executionPlan, cudnnBackendDescriptor_t variantPack,
                  cudaGraph_t graph),
                 (handle, executionPlan, variantPack, graph))
ONNX_AMP_FORWARD(cudnnBackendUpdateCudaGraph,
                 (cudnnHandle_t handle, cudnnBackendDescriptor_t executionPlan, cudnnBackendDescriptor_t variantPack,
                  cudaGraph_t graph),
                 (handle, executionPlan, variantPack, graph))
ONNX_AMP_FORWARD(cudnnReorderFilterAndBias,
                 (cudnnHandle_t handle, const cudnnFilterDescriptor_t filterDesc, cudnnReorderType_t reorderType,
                  const void* filterData, void* reorderedFilterData, int reorderBias, const void* biasData,
                  void* reorderedBiasData),
                 (handle, filterDesc, reorderType, filterData, reorderedFilterData, reorderBias, biasData,
                  reorderedBiasData))
ONNX_AMP_FORWARD(cudnnCreateFilterDescriptor, (cudnnFilterDescriptor_t * filterDesc), (filterDesc))
ONNX_AMP_FORWARD(cudnnSetFilterNdDescriptor,
                 (cudnnFilterDescriptor_t filterDesc, cudnnDataType_t dataType, cudnnTensorFormat_t format, int nbDims,
                  const int filterDimA[]),
                 (filterDesc, dataType, format, nbDims, filterDimA))
ONNX_AMP_FORWARD(cudnnDestroyFilterDescriptor, (cudnnFilterDescriptor_t filterDesc), (filterDesc))

#undef ONNX_AMP_FORWARD
