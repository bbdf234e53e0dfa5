// External data of ONNX: openat() with O_NOFOLLOW per path component, and checks of offset and length before reading.
// The files come from untrusted sources: keep path_parts() strict, and refuse everything that is not a regular file.
#include "importer/read/external.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/io.h"
#include "base/text.h"
#include "importer/quantized/four_bits.h"
#include "importer/read/shared_payloads.h"
#include "importer/read/tensor.h"

namespace amp {
namespace {

constexpr size_t kMaxFiles = 10000;

int64_t parse_number(const std::string& key, const std::string& text) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    fail(Exit::model, "E_EXT_RANGE",
         cat("external data ", key, " '", printable(text), "' is not a non-negative number"));
  }
  return value;
}

// Returns the components of a location. Throws E_EXT_PATH if the location is not allowed.
std::vector<std::string> path_parts(const std::string& location) {
  const auto refuse = [&](const char* why) {
    fail(Exit::model, "E_EXT_PATH", cat("external data location '", printable(location), "' ", why),
         "locations must be relative and stay inside the model's folder");
  };
  if (location.empty()) refuse("is empty");
  if (location.find('\0') != std::string::npos) refuse("contains a NUL byte");
  if (location[0] == '/') refuse("is absolute");
  if (location.find('\\') != std::string::npos) refuse("contains a backslash");
  if (location.size() > 1 && location[1] == ':') refuse("names a drive");
  std::vector<std::string> parts;
  for (std::string& part : split(location, '/')) {
    if (part == "..") refuse("leaves the model's folder");
    if (!part.empty() && part != ".") parts.push_back(std::move(part));
  }
  if (parts.empty() || location.back() == '/') refuse("names no file");
  return parts;
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISSOCK(mode)) return "a socket";
  return "not a regular file";
}

}  // namespace

ExternalData::ExternalData(const std::string& model_path) {
  namespace fs = std::filesystem;
  constexpr int kMaxLinks = 40;  // the Linux kernel's limit
  fs::path file = model_path;
  for (int links = 0; links <= kMaxLinks; ++links) {
    std::error_code error;
    const fs::path parent = file.has_parent_path() ? file.parent_path() : fs::path(".");
    const std::string folder = fs::canonical(parent, error).string();
    if (error) break;
    const auto same = [&](const Root& r) { return r.folder == folder; };
    if (std::none_of(roots_.begin(), roots_.end(), same)) roots_.push_back({folder, -1});
    const fs::path target = fs::read_symlink(file, error);
    if (error) break;
    file = target.is_absolute() ? target : fs::path(folder) / target;
  }
  if (roots_.empty()) roots_.push_back({".", -1});
}

ExternalData::~ExternalData() {
  if (fd_ >= 0) ::close(fd_);
  for (const Root& r : roots_) {
    if (r.fd >= 0) ::close(r.fd);
  }
}

int ExternalData::open_beneath(Root& root, const std::vector<std::string>& parts) const {
  if (root.fd < 0) root.fd = open_file(root.folder.c_str(), O_PATH | O_DIRECTORY);
  int at = root.fd;
  for (size_t i = 0; i < parts.size() && at >= 0; ++i) {
    const bool last = i + 1 == parts.size();
    const int flags = O_NOFOLLOW | O_CLOEXEC | (last ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY);
    const int next = retried([&] { return ::openat(at, parts[i].c_str(), flags); });
    const int why = errno;
    if (at != root.fd) ::close(at);
    errno = why;
    at = next;
  }
  return at;
}

int ExternalData::open_link_target(const Root& root, const std::string& location) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path target = fs::canonical(fs::path(root.folder) / location, error);
  if (error) return -1;
  for (Root& r : roots_) {
    const fs::path inside = target.lexically_relative(r.folder);
    if (inside.empty() || *inside.begin() == ".." || *inside.begin() == ".") continue;
    if (const int fd = open_beneath(r, std::vector<std::string>(inside.begin(), inside.end())); fd >= 0) return fd;
  }
  return -1;
}

void ExternalData::open(const std::string& location) {
  if (fd_ >= 0 && location == open_location_) return;
  const std::vector<std::string> parts = path_parts(location);
  if (locations_.insert(location).second && locations_.size() > kMaxFiles) {
    fail(Exit::model, "E_EXT_FILES", cat("the model's tensors are stored in more than ", kMaxFiles, " files"));
  }
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  int why = ENOENT;
  for (size_t i = 0; i < roots_.size() && fd_ < 0; ++i) {
    fd_ = open_beneath(roots_[i], parts);
    if (fd_ >= 0) break;
    const int here = errno;
    if (here == ELOOP || here == ENOTDIR) fd_ = open_link_target(roots_[i], location);
    if (here != ENOENT) why = here;
  }
  if (fd_ < 0) refuse_location(location, why);
  open_location_ = location;
  if (::fstat(fd_, &file_) != 0 || !S_ISREG(file_.st_mode)) {
    fail(Exit::model, "E_EXT_KIND", cat("external data file '", printable(location), "' is ", kind_of(file_.st_mode)));
  }
  if (file_.st_nlink > 1 && file_.st_uid != ::geteuid()) {
    fail(Exit::model, "E_EXT_KIND",
         cat("external data file '", printable(location), "' is a hard link to another user's file"));
  }
  size_ = file_.st_size;
}

void ExternalData::refuse_location(const std::string& location, int why) const {
  if (why == ENOENT) {
    std::vector<std::string> places;
    for (const Root& r : roots_) places.push_back(cat("'", printable(r.folder), "/", printable(location), "'"));
    fail(Exit::model, "E_EXT_MISSING", cat("external data file ", join(places, " or "), " is missing"),
         "copy it beside the .onnx file");
  }
  const bool link = why == ELOOP || why == ENOTDIR;
  fail(Exit::model, "E_EXT_KIND",
       cat("external data file '", printable(location), "' cannot be used: ",
           link ? "its path leads through a file that is no folder, or through a symbolic link to outside of the "
                  "model's folder"
                : std::strerror(why)),
       link ? "copy the file itself beside the .onnx file" : "");
}

HostTensor ExternalData::read(const onnx::TensorProto& t) {
  std::map<std::string, std::string> entries;
  for (const auto& e : t.external_data()) {
    if (!entries.emplace(e.key(), e.value()).second) {
      fail(Exit::model, "E_EXT_KEY", cat("external data key '", printable(e.key()), "' occurs twice"));
    }
    if (e.key() != "location" && e.key() != "offset" && e.key() != "length" && e.key() != "checksum") {
      notes_.push_back(
          cat("tensor '", printable(t.name()), "': external data key '", printable(e.key()), "' is ignored"));
    }
  }
  // The size follows from type and dims; offset and length must match it and the file.
  const bool packed = has_four_bits(t.data_type());
  const DType d = packed ? DType::u8 : dtype_of(t.data_type()).value();
  const Dims dims = packed ? Dims{packed_bytes(t)} : checked_dims(t, d);
  const int64_t want = numel(dims) * size_of(d);
  if (!t.raw_data().empty()) fail(Exit::model, "E_TENSOR_FIELDS", "the tensor has both raw_data and external data");
  const int64_t offset = entries.count("offset") ? parse_number("offset", entries["offset"]) : 0;
  open(entries["location"]);
  const int64_t length = entries.count("length") ? parse_number("length", entries["length"]) : want;
  if (length != want || offset > size_ || length > size_ - offset) {
    fail(Exit::model, "E_EXT_RANGE",
         cat(name_of(d), " ", to_string(dims), " needs ", want, " bytes; external data says offset ", offset,
             ", length ", length, " in '", printable(open_location_), "' of ", size_, " bytes"));
  }
  const PayloadPlace place(file_, offset, want, d);
  if (HostTensor shared = shared_payload(place, dims)) return shared;
  HostTensor out = HostTensor::empty(d, dims);
  const int64_t have = read_fully_at(fd_, out.mutable_data(), want, offset);
  if (have != want) {
    fail(Exit::model, "E_EXT_CHANGED",
         cat("external data file '", printable(open_location_), "' ",
             have < 0 ? cat("cannot be read: ", std::strerror(errno)) : std::string("shrank while being read")));
  }
  if (d == DType::boolean) {
    auto* p = static_cast<uint8_t*>(out.mutable_data());
    for (int64_t i = 0; i < want; ++i) p[i] = p[i] != 0;
  }
  return share_payload(place, std::move(out));
}

}  // namespace amp
