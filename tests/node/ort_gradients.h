// Operators that ONNX Runtime training 1.19.2, its last release, can differentiate; for docs/operators.md.
#pragma once

#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

namespace amp::test {

// Operators with a gradient builder.
inline std::set<std::string> ort_gradients() {
  std::istringstream names(R"(
Cast Sin Cos Log Tanh Sqrt Erf MatMul FusedMatMul Split Relu Pow ReduceMean ReduceSum ReduceLogSumExp ReduceL2
Add Sub Mul Div Neg Concat ConcatTraining Reshape Transpose Gemm MaxPool Gather Conv ConvTranspose Squeeze
Unsqueeze Sigmoid Softmax LogSoftmax SoftmaxCrossEntropy SparseSoftmaxCrossEntropy SoftmaxCrossEntropyLoss
SoftmaxCrossEntropyLossInternal GlobalAveragePool AveragePool Dropout GatherND GatherElements Gelu BiasGelu
FastGelu QuickGelu LayerNormalization SimplifiedLayerNormalization BatchNormInternal MegatronF MegatronG Slice
Where Send Recv Expand Exp Flatten TopK Clip Abs Min Max Tile Pad Identity PythonOp ScatterND ScatterElements
ExternalOp LeakyRelu LSTM GRU Reciprocal Resize ScaledSum Trilu FakeQuant PadAndUnflatten FlattenAndUnpad
ShrunkenGather MatMulBnb4)");
  return {std::istream_iterator<std::string>(names), {}};
}

// Operators that only occur inside the training graph, and the ONNX operators that they replace.
inline const std::map<std::string, std::string> kOrtInside = {{"BatchNormInternal", "BatchNormalization"}};

}  // namespace amp::test
