// load_proto(): parses the file with protobuf and checks versions. A file that protobuf rejects is read a second time
// to find the reason: a file of another framework (foreign_file.h), or the offset of the first malformed field
// (wire.h).
#include "importer/read/load.h"

#include <fcntl.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/io.h"
#include "base/near_path.h"
#include "base/text.h"
#include "importer/read/foreign_file.h"
#include "importer/read/newer_onnx.h"
#include "importer/read/opsets.h"
#include "importer/read/wire.h"

namespace amp {
namespace {

struct File {
  int fd = -1;
  ~File() {
    if (fd >= 0) ::close(fd);
  }
};

void refuse_foreign(const std::string& path, int fd, int64_t size) {
  const std::optional<ForeignFile> f = recognize_file(path, fd, size);
  if (!f) return;
  fail(Exit::model, f->kind == "a Git LFS pointer" ? "E_ONNX_LFS" : "E_ONNX_NOT_PROTO",
       cat("not an ONNX model: this looks like ", f->kind), f->advice);
}

// Reads the file again to explain why it is not a model.
[[noreturn]] void explain(const std::string& path, int fd, int64_t size) {
  refuse_foreign(path, fd, size);
  std::string bytes(static_cast<size_t>(size), '\0');
  bytes.resize(static_cast<size_t>(std::max<int64_t>(0, read_fully_at(fd, bytes.data(), size, 0))));
  const WireFault fault = scan_wire(bytes);
  const std::string place = cat("at byte ", fault.offset, " of ", size, fault.path.empty() ? "" : ", in ", fault.path,
                                fault.detail.empty() ? "" : ": ", fault.detail);
  switch (fault.kind) {
    case WireFault::truncated:
      fail(Exit::model, "E_ONNX_TRUNCATED", cat("the file is truncated ", place), "copy or download it again");
    case WireFault::too_deep:
      fail(Exit::model, "E_ONNX_DEPTH", cat("messages are nested more than 100 deep ", place));
    case WireFault::malformed:
      fail(Exit::model, "E_ONNX_WIRE", cat("not a well-formed ONNX protobuf ", place), "copy or download it again");
    case WireFault::none:
      break;
  }
  fail(Exit::model, "E_ONNX_NOT_PROTO", "the file holds no ONNX graph", "is this an ONNX model?");
}

// Checks the version of ai.onnx, if it is imported.
void check_opset(const std::string& user, const Opsets& opsets, int64_t oldest) {
  const auto found = opsets.find("");
  if (found == opsets.end() || (found->second >= oldest && found->second <= kNewestOpset)) return;
  fail(Exit::unsupported, "E_OPSET",
       cat(user, " uses opset ", found->second, "; supported: ", kOldestOpset, " to ", kNewestOpset),
       "export it again with another opset, or convert it with onnx.version_converter");
}

void check_versions(const onnx::ModelProto& m) {
  if (m.ir_version() <= 0) {
    fail(Exit::model, "E_ONNX_GRAPH",
         m.has_ir_version() ? cat("the model's ir_version is ", m.ir_version()) : "the model has no ir_version",
         "set it, in Python: m = onnx.load(FILE); m.ir_version = 8; onnx.save(m, FILE)");
  }
  refuse_unknown_fields(m);
  const Opsets opsets = opsets_of(m.opset_import());
  check_opset("the model", opsets, kOldestOpset);
  for (const auto& f : m.functions())
    check_opset(cat("local function '", printable(f.name()), "'"), opsets_of(f.opset_import()), 1);
  if (opsets.count("") || m.graph().node_size() == 0) return;
  for (const auto& n : m.graph().node()) {
    if (standard(n.domain()).empty()) {
      fail(Exit::unsupported, "E_OPSET", "the model imports no version of the standard operator set",
           "the file may be cut short: copy or download it again");
    }
  }
}

}  // namespace

std::shared_ptr<onnx::ModelProto> load_proto(const std::string& path) {
  const auto cannot_open = [&](int error) {
    fail(Exit::usage, "E_MODEL_OPEN", cat("cannot open model '", path, "': ", std::strerror(error)),
         near_path_hint(path));
  };
  File file{open_file(path.c_str(), O_RDONLY | O_NONBLOCK)};
  if (file.fd < 0) cannot_open(errno);
  struct stat st;
  if (::fstat(file.fd, &st) != 0) cannot_open(errno);
  if (S_ISDIR(st.st_mode)) cannot_open(EISDIR);
  if (!S_ISREG(st.st_mode)) fail(Exit::usage, "E_MODEL_OPEN", cat("model '", path, "' is not a regular file"));
  try {
    if (st.st_size == 0) fail(Exit::model, "E_ONNX_EMPTY", "the file is empty");
    if (st.st_size > INT32_MAX) {
      refuse_foreign(path, file.fd, st.st_size);
      fail(Exit::model, "E_ONNX_2GB",
           cat("the file has ", with_thousands(st.st_size), " bytes; protobuf ends at 2 GiB"),
           "save it again with external data (onnx.save_model(..., save_as_external_data=True))");
    }
    auto model = std::make_shared<onnx::ModelProto>();
    google::protobuf::io::FileInputStream in(file.fd);
    if (!model->ParseFromZeroCopyStream(&in) || !model->has_graph()) {
      if (in.GetErrno() != 0) cannot_open(in.GetErrno());
      model.reset();
      explain(path, file.fd, st.st_size);
    }
    check_versions(*model);
    return model;
  } catch (Error& e) {
    if (e.id() != "E_MODEL_OPEN") e.at(cat("in model '", path, "'"));
    throw;
  }
}

}  // namespace amp
