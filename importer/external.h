// Reads tensors kept outside the .onnx file. Nothing but regular files beneath the model's real directory is ever
// opened: locations are relative, have no "..", and no component may be a symbolic link (each is opened relative to
// its parent with O_NOFOLLOW, so nothing can be swapped in between check and use).
#pragma once

#include <onnx/onnx_pb.h>

#include <set>
#include <string>
#include <vector>

#include "base/host_tensor.h"

namespace amp {

class ExternalData {
 public:
  explicit ExternalData(const std::string& model_path);  // its real directory becomes the root
  ~ExternalData();
  ExternalData(const ExternalData&) = delete;
  ExternalData& operator=(const ExternalData&) = delete;

  // Exit::model E_EXT_PATH, E_EXT_KIND, E_EXT_MISSING, E_EXT_RANGE, E_EXT_KEY, E_EXT_CHANGED, E_EXT_FILES.
  // dtype_of must know the tensor's type.
  HostTensor read(const onnx::TensorProto& t);

  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void open(const std::string& location);

  std::string root_;
  int root_fd_ = -1;
  std::set<std::string> locations_;
  std::string open_location_;  // the one file kept open
  int fd_ = -1;
  int64_t size_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace amp
