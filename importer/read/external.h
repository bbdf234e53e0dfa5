// Reads tensors that are stored outside the .onnx file. A location is a relative path without "..". It is searched for
// in the folder of the given path, then in the folder of each file that this path links to. A Hugging Face cache, for
// example, stores snapshots/<commit>/model.onnx and model.onnx_data as symbolic links into blobs/. Only regular files
// inside one of these folders are opened. A symbolic link is resolved first, and its target must be inside one of them
// too. The target is opened component by component with O_NOFOLLOW. So a file that is replaced by a link between the
// check and the use is not followed.
#pragma once

#include <onnx/onnx_pb.h>
#include <sys/stat.h>

#include <set>
#include <string>
#include <vector>

#include "base/host_tensor.h"

namespace amp {

class ExternalData {
 public:
  explicit ExternalData(const std::string& model_path);
  ~ExternalData();
  ExternalData(const ExternalData&) = delete;
  ExternalData& operator=(const ExternalData&) = delete;

  // Reads one tensor of a type that dtype_of() or has_four_bits() accepts. Throws Exit::model errors: E_EXT_PATH,
  // E_EXT_KIND, E_EXT_MISSING, E_EXT_RANGE, E_EXT_KEY, E_EXT_CHANGED, E_EXT_FILES.
  HostTensor read(const onnx::TensorProto& t);

  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Root {
    std::string folder;  // canonical path
    int fd = -1;
  };
  void open(const std::string& location);
  // Opens root/parts without following links. Returns the descriptor, or -1 and errno.
  int open_beneath(Root& root, const std::vector<std::string>& parts) const;
  // Opens the target of root/location, a path with symbolic links, if the target is inside a root; else returns -1.
  int open_link_target(const Root& root, const std::string& location);

  [[noreturn]] void refuse_location(const std::string& location, int why) const;  // throws E_EXT_MISSING or E_EXT_KIND

  std::vector<Root> roots_;
  std::set<std::string> locations_;
  std::string open_location_;  // location of the open file; only one file is kept open
  int fd_ = -1;
  struct stat file_ = {};  // state of the open file
  int64_t size_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace amp
