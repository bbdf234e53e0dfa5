#include "importer/read/tensor_file.h"

#include <fstream>

#include "base/error.h"
#include "importer/read/tensor.h"

namespace amp {

HostTensor read_tensor_proto(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(Exit::usage, "E_FILE_MISSING", cat("cannot open ", path));
  const auto proto = std::make_shared<onnx::TensorProto>();
  if (!proto->ParseFromIstream(&file)) fail(Exit::model, "E_TENSOR_FILE", cat(path, " holds no TensorProto"));
  if (!dtype_of(proto->data_type())) {
    fail(Exit::unsupported, "E_TYPE", cat(path, ": element type ", onnx_type_name(proto->data_type())));
  }
  return decode(*proto, proto);
}

}  // namespace amp
