// ModelDoc: the parsed file, and the place of each SourceValue's payload in it.
//
// A slot is a place that holds tensor data: a TensorProto (initializer or tensor attribute) or a FLOAT/FLOATS
// attribute. Slots are numbered in the order of for_each_slot(). The order depends on the structure only, so a number
// refers to the same place in a copy of the proto.
#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/host_tensor.h"

namespace amp {

struct Slot {
  onnx::TensorProto* tensor = nullptr;  // either tensor or attribute is set
  onnx::AttributeProto* attribute = nullptr;
};

void for_each_slot(onnx::ModelProto& model, const std::function<void(int number, Slot)>& visit);

// Key in the metadata of an initializer that this program added and that is not trained, such as a scale.
inline constexpr const char* kAddedConstant = "onnx-amp-finetune.constant";

struct ModelDoc {
  std::string path;
  std::shared_ptr<onnx::ModelProto> proto;  // HostTensors of the SourceGraph view its payloads
  std::map<int, HostTensor> external;       // slot -> payload, for tensors kept outside the .onnx file
  std::map<int, HostTensor> large;          // slot -> payload, for large initializers: moved out of `proto`
  std::vector<int> slot_of;                 // SourceValue -> slot, -1 when it has no payload in the file
  std::vector<char> visible;                // SourceValue -> its name is a value of the file's top-level graph
  struct Reader {
    std::string output;  // first output of a node in the file's top-level graph
    int input;           // index among the node's inputs
  };
  // A SourceValue that shares a tensor of the file with others and may differ from it after training. Export then
  // writes it as a separate initializer, removes the Identity that produced it and connects its readers to the new
  // initializer.
  struct Separated {
    int of = -1;  // the SourceValue that keeps the file's tensor
    std::vector<Reader> readers;
  };
  std::map<int, Separated> separated;
  std::vector<std::string> names;   // SourceValue -> its name in the file; surgery may rename the value
  std::vector<std::string> caches;  // outputs of the file that the SourceGraph does not have (importer/surgery/pasts.h)
  int values = 0;                   // number of values of the SourceGraph as imported; later ones were added by surgery
};

}  // namespace amp
