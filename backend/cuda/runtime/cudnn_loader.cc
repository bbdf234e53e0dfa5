// cuDNN's functions, defined here: each calls the one of its name in the library, which is loaded at the first call. So
// the plugin opens on a machine without cuDNN, and models that do not need it run there. A function that is used but
// not listed here does not link.
#include <cudnn.h>
#include <dlfcn.h>

#include <string>

#include "base/cat.h"

namespace amp::cuda {

namespace {

struct Library {
  void* handle = nullptr;
  std::string missing;  // why there is none

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

ONNX_AMP_FORWARD(cudnnCreateRNNDescriptor, (cudnnRNNDescriptor_t * rnnDesc), (rnnDesc))
ONNX_AMP_FORWARD(cudnnDestroyRNNDescriptor, (cudnnRNNDescriptor_t rnnDesc), (rnnDesc))
ONNX_AMP_FORWARD(cudnnSetRNNDescriptor_v8,
                 (cudnnRNNDescriptor_t rnnDesc, cudnnRNNAlgo_t algo, cudnnRNNMode_t cellMode,
                  cudnnRNNBiasMode_t biasMode, cudnnDirectionMode_t dirMode, cudnnRNNInputMode_t inputMode,
                  cudnnDataType_t dataType, cudnnDataType_t mathPrec, cudnnMathType_t mathType, int32_t inputSize,
                  int32_t hiddenSize, int32_t projSize, int32_t numLayers, cudnnDropoutDescriptor_t dropoutDesc,
                  uint32_t auxFlags),
                 (rnnDesc, algo, cellMode, biasMode, dirMode, inputMode, dataType, mathPrec, mathType, inputSize,
                  hiddenSize, projSize, numLayers, dropoutDesc, auxFlags))
ONNX_AMP_FORWARD(cudnnGetRNNTempSpaceSizes,
                 (cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc, cudnnForwardMode_t fwdMode,
                  cudnnRNNDataDescriptor_t xDesc, size_t* workSpaceSize, size_t* reserveSpaceSize),
                 (handle, rnnDesc, fwdMode, xDesc, workSpaceSize, reserveSpaceSize))
ONNX_AMP_FORWARD(cudnnGetRNNWeightSpaceSize,
                 (cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc, size_t* weightSpaceSize),
                 (handle, rnnDesc, weightSpaceSize))
ONNX_AMP_FORWARD(cudnnGetRNNWeightParams,
                 (cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc, int32_t pseudoLayer, size_t weightSpaceSize,
                  const void* weightSpace, int32_t linLayerID, cudnnTensorDescriptor_t mDesc, void** mAddr,
                  cudnnTensorDescriptor_t bDesc, void** bAddr),
                 (handle, rnnDesc, pseudoLayer, weightSpaceSize, weightSpace, linLayerID, mDesc, mAddr, bDesc, bAddr))
ONNX_AMP_FORWARD(cudnnCreateRNNDataDescriptor, (cudnnRNNDataDescriptor_t * rnnDataDesc), (rnnDataDesc))
ONNX_AMP_FORWARD(cudnnDestroyRNNDataDescriptor, (cudnnRNNDataDescriptor_t rnnDataDesc), (rnnDataDesc))
ONNX_AMP_FORWARD(cudnnSetRNNDataDescriptor,
                 (cudnnRNNDataDescriptor_t rnnDataDesc, cudnnDataType_t dataType, cudnnRNNDataLayout_t layout,
                  int maxSeqLength, int batchSize, int vectorSize, const int seqLengthArray[], void* paddingFill),
                 (rnnDataDesc, dataType, layout, maxSeqLength, batchSize, vectorSize, seqLengthArray, paddingFill))
ONNX_AMP_FORWARD(cudnnRNNForward,
                 (cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc, cudnnForwardMode_t fwdMode,
                  const int32_t devSeqLengths[], cudnnRNNDataDescriptor_t xDesc, const void* x,
                  cudnnRNNDataDescriptor_t yDesc, void* y, cudnnTensorDescriptor_t hDesc, const void* hx, void* hy,
                  cudnnTensorDescriptor_t cDesc, const void* cx, void* cy, size_t weightSpaceSize,
                  const void* weightSpace, size_t workSpaceSize, void* workSpace, size_t reserveSpaceSize,
                  void* reserveSpace),
                 (handle, rnnDesc, fwdMode, devSeqLengths, xDesc, x, yDesc, y, hDesc, hx, hy, cDesc, cx, cy,
                  weightSpaceSize, weightSpace, workSpaceSize, workSpace, reserveSpaceSize, reserveSpace))
ONNX_AMP_FORWARD(cudnnRNNBackwardData_v8,
                 (cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc, const int32_t devSeqLengths[],
                  cudnnRNNDataDescriptor_t yDesc, const void* y, const void* dy, cudnnRNNDataDescriptor_t xDesc,
                  void* dx, cudnnTensorDescriptor_t hDesc, const void* hx, const void* dhy, void* dhx,
                  cudnnTensorDescriptor_t cDesc, const void* cx, const void* dcy, void* dcx, size_t weightSpaceSize,
                  const void* weightSpace, size_t workSpaceSize, void* workSpace, size_t reserveSpaceSize,
                  void* reserveSpace),
                 (handle, rnnDesc, devSeqLengths, yDesc, y, dy, xDesc, dx, hDesc, hx, dhy, dhx, cDesc, cx, dcy, dcx,
                  weightSpaceSize, weightSpace, workSpaceSize, workSpace, reserveSpaceSize, reserveSpace))
ONNX_AMP_FORWARD(cudnnRNNBackwardWeights_v8,
                 (cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc, cudnnWgradMode_t addGrad,
                  const int32_t devSeqLengths[], cudnnRNNDataDescriptor_t xDesc, const void* x,
                  cudnnTensorDescriptor_t hDesc, const void* hx, cudnnRNNDataDescriptor_t yDesc, const void* y,
                  size_t weightSpaceSize, void* dweightSpace, size_t workSpaceSize, void* workSpace,
                  size_t reserveSpaceSize, void* reserveSpace),
                 (handle, rnnDesc, addGrad, devSeqLengths, xDesc, x, hDesc, hx, yDesc, y, weightSpaceSize, dweightSpace,
                  workSpaceSize, workSpace, reserveSpaceSize, reserveSpace))
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
ONNX_AMP_FORWARD(cudnnCreateConvolutionDescriptor, (cudnnConvolutionDescriptor_t * convDesc), (convDesc))
ONNX_AMP_FORWARD(cudnnDestroyConvolutionDescriptor, (cudnnConvolutionDescriptor_t convDesc), (convDesc))
ONNX_AMP_FORWARD(cudnnSetConvolutionMathType, (cudnnConvolutionDescriptor_t convDesc, cudnnMathType_t mathType),
                 (convDesc, mathType))
ONNX_AMP_FORWARD(cudnnSetConvolutionGroupCount, (cudnnConvolutionDescriptor_t convDesc, int groupCount),
                 (convDesc, groupCount))
ONNX_AMP_FORWARD(cudnnSetConvolutionNdDescriptor,
                 (cudnnConvolutionDescriptor_t convDesc, int arrayLength, const int padA[], const int filterStrideA[],
                  const int dilationA[], cudnnConvolutionMode_t mode, cudnnDataType_t computeType),
                 (convDesc, arrayLength, padA, filterStrideA, dilationA, mode, computeType))
ONNX_AMP_FORWARD(cudnnGetConvolutionNdForwardOutputDim,
                 (const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t inputTensorDesc,
                  const cudnnFilterDescriptor_t filterDesc, int nbDims, int tensorOuputDimA[]),
                 (convDesc, inputTensorDesc, filterDesc, nbDims, tensorOuputDimA))
ONNX_AMP_FORWARD(cudnnGetConvolutionForwardAlgorithm_v7,
                 (cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc, const cudnnFilterDescriptor_t filterDesc,
                  const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t destDesc,
                  const int requestedAlgoCount, int* returnedAlgoCount, cudnnConvolutionFwdAlgoPerf_t* perfResults),
                 (handle, srcDesc, filterDesc, convDesc, destDesc, requestedAlgoCount, returnedAlgoCount, perfResults))
ONNX_AMP_FORWARD(cudnnReorderFilterAndBias,
                 (cudnnHandle_t handle, const cudnnFilterDescriptor_t filterDesc, cudnnReorderType_t reorderType,
                  const void* filterData, void* reorderedFilterData, int reorderBias, const void* biasData,
                  void* reorderedBiasData),
                 (handle, filterDesc, reorderType, filterData, reorderedFilterData, reorderBias, biasData,
                  reorderedBiasData))
ONNX_AMP_FORWARD(cudnnGetConvolutionForwardWorkspaceSize,
                 (cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnFilterDescriptor_t wDesc,
                  const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t yDesc,
                  cudnnConvolutionFwdAlgo_t algo, size_t* sizeInBytes),
                 (handle, xDesc, wDesc, convDesc, yDesc, algo, sizeInBytes))
ONNX_AMP_FORWARD(cudnnConvolutionForward,
                 (cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t xDesc, const void* x,
                  const cudnnFilterDescriptor_t wDesc, const void* w, const cudnnConvolutionDescriptor_t convDesc,
                  cudnnConvolutionFwdAlgo_t algo, void* workSpace, size_t workSpaceSizeInBytes, const void* beta,
                  const cudnnTensorDescriptor_t yDesc, void* y),
                 (handle, alpha, xDesc, x, wDesc, w, convDesc, algo, workSpace, workSpaceSizeInBytes, beta, yDesc, y))
ONNX_AMP_FORWARD(cudnnGetConvolutionBackwardDataAlgorithm_v7,
                 (cudnnHandle_t handle, const cudnnFilterDescriptor_t filterDesc,
                  const cudnnTensorDescriptor_t diffDesc, const cudnnConvolutionDescriptor_t convDesc,
                  const cudnnTensorDescriptor_t gradDesc, const int requestedAlgoCount, int* returnedAlgoCount,
                  cudnnConvolutionBwdDataAlgoPerf_t* perfResults),
                 (handle, filterDesc, diffDesc, convDesc, gradDesc, requestedAlgoCount, returnedAlgoCount, perfResults))
ONNX_AMP_FORWARD(cudnnGetConvolutionBackwardDataWorkspaceSize,
                 (cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc, const cudnnTensorDescriptor_t dyDesc,
                  const cudnnConvolutionDescriptor_t convDesc, const cudnnTensorDescriptor_t dxDesc,
                  cudnnConvolutionBwdDataAlgo_t algo, size_t* sizeInBytes),
                 (handle, wDesc, dyDesc, convDesc, dxDesc, algo, sizeInBytes))
ONNX_AMP_FORWARD(cudnnConvolutionBackwardData,
                 (cudnnHandle_t handle, const void* alpha, const cudnnFilterDescriptor_t wDesc, const void* w,
                  const cudnnTensorDescriptor_t dyDesc, const void* dy, const cudnnConvolutionDescriptor_t convDesc,
                  cudnnConvolutionBwdDataAlgo_t algo, void* workSpace, size_t workSpaceSizeInBytes, const void* beta,
                  const cudnnTensorDescriptor_t dxDesc, void* dx),
                 (handle, alpha, wDesc, w, dyDesc, dy, convDesc, algo, workSpace, workSpaceSizeInBytes, beta, dxDesc,
                  dx))
ONNX_AMP_FORWARD(cudnnGetConvolutionBackwardFilterAlgorithm_v7,
                 (cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc, const cudnnTensorDescriptor_t diffDesc,
                  const cudnnConvolutionDescriptor_t convDesc, const cudnnFilterDescriptor_t gradDesc,
                  const int requestedAlgoCount, int* returnedAlgoCount,
                  cudnnConvolutionBwdFilterAlgoPerf_t* perfResults),
                 (handle, srcDesc, diffDesc, convDesc, gradDesc, requestedAlgoCount, returnedAlgoCount, perfResults))
ONNX_AMP_FORWARD(cudnnGetConvolutionBackwardFilterWorkspaceSize,
                 (cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc, const cudnnTensorDescriptor_t dyDesc,
                  const cudnnConvolutionDescriptor_t convDesc, const cudnnFilterDescriptor_t gradDesc,
                  cudnnConvolutionBwdFilterAlgo_t algo, size_t* sizeInBytes),
                 (handle, xDesc, dyDesc, convDesc, gradDesc, algo, sizeInBytes))
ONNX_AMP_FORWARD(cudnnConvolutionBackwardFilter,
                 (cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t xDesc, const void* x,
                  const cudnnTensorDescriptor_t dyDesc, const void* dy, const cudnnConvolutionDescriptor_t convDesc,
                  cudnnConvolutionBwdFilterAlgo_t algo, void* workSpace, size_t workSpaceSizeInBytes, const void* beta,
                  const cudnnFilterDescriptor_t dwDesc, void* dw),
                 (handle, alpha, xDesc, x, dyDesc, dy, convDesc, algo, workSpace, workSpaceSizeInBytes, beta, dwDesc,
                  dw))
ONNX_AMP_FORWARD(cudnnCreateTensorDescriptor, (cudnnTensorDescriptor_t * tensorDesc), (tensorDesc))
ONNX_AMP_FORWARD(cudnnSetTensorNdDescriptor,
                 (cudnnTensorDescriptor_t tensorDesc, cudnnDataType_t dataType, int nbDims, const int dimA[],
                  const int strideA[]),
                 (tensorDesc, dataType, nbDims, dimA, strideA))
ONNX_AMP_FORWARD(cudnnGetTensorNdDescriptor,
                 (const cudnnTensorDescriptor_t tensorDesc, int nbDimsRequested, cudnnDataType_t* dataType, int* nbDims,
                  int dimA[], int strideA[]),
                 (tensorDesc, nbDimsRequested, dataType, nbDims, dimA, strideA))
ONNX_AMP_FORWARD(cudnnDestroyTensorDescriptor, (cudnnTensorDescriptor_t tensorDesc), (tensorDesc))
ONNX_AMP_FORWARD(cudnnCreateFilterDescriptor, (cudnnFilterDescriptor_t * filterDesc), (filterDesc))
ONNX_AMP_FORWARD(cudnnSetFilterNdDescriptor,
                 (cudnnFilterDescriptor_t filterDesc, cudnnDataType_t dataType, cudnnTensorFormat_t format, int nbDims,
                  const int filterDimA[]),
                 (filterDesc, dataType, format, nbDims, filterDimA))
ONNX_AMP_FORWARD(cudnnDestroyFilterDescriptor, (cudnnFilterDescriptor_t filterDesc), (filterDesc))
ONNX_AMP_FORWARD(cudnnCreateDropoutDescriptor, (cudnnDropoutDescriptor_t * dropoutDesc), (dropoutDesc))
ONNX_AMP_FORWARD(cudnnDestroyDropoutDescriptor, (cudnnDropoutDescriptor_t dropoutDesc), (dropoutDesc))
ONNX_AMP_FORWARD(cudnnSetDropoutDescriptor,
                 (cudnnDropoutDescriptor_t dropoutDesc, cudnnHandle_t handle, float dropout, void* states,
                  size_t stateSizeInBytes, unsigned long long seed),
                 (dropoutDesc, handle, dropout, states, stateSizeInBytes, seed))

#undef ONNX_AMP_FORWARD
