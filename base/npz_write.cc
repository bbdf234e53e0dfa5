// Writes .npy and .npz: headers of version 1.0, members stored without compression, 64-bit zip fields where needed. The
// output depends only on names and tensors, because all members have zip's earliest date.
#include <zlib.h>

#include <limits>
#include <set>

#include "base/file.h"
#include "base/npz.h"
#include "base/text.h"

namespace amp {

namespace {

constexpr uint64_t kMost32 = std::numeric_limits<uint32_t>::max();

std::string descr(DType t) {
  switch (t) {
    case DType::f16:
      return "<f2";
    case DType::f32:
      return "<f4";
    case DType::f64:
      return "<f8";
    case DType::i8:
      return "|i1";
    case DType::i16:
      return "<i2";
    case DType::i32:
      return "<i4";
    case DType::i64:
      return "<i8";
    case DType::u8:
      return "|u1";
    case DType::u16:
      return "<u2";
    case DType::u32:
      return "<u4";
    case DType::u64:
      return "<u8";
    case DType::boolean:
      return "|b1";
    default:
      return "";
  }
}

void put(std::string& out, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(v >> (8 * i) & 0xff);
}

// Returns the header of a .npy file: magic, version, length and dictionary, padded to a multiple of 64 bytes as numpy
// does.
std::string npy_header(const HostTensor& t) {
  std::string shape = "(";
  for (const int64_t d : t.dims()) shape += std::to_string(d) + (t.rank() == 1 ? "," : ", ");
  if (t.rank() > 1) shape.resize(shape.size() - 2);
  std::string text = cat("{'descr': '", descr(t.dtype()), "', 'fortran_order': False, 'shape': ", shape, "), }");
  text.append(63 - (10 + text.size()) % 64, ' ');
  text += '\n';
  std::string out = "\x93NUMPY";
  out += '\x01';
  out += '\x00';
  put(out, text.size(), 2);
  return out + text;
}

// Returns the tensor, converted to float32 if it is bfloat16, which numpy lacks.
HostTensor known_to_numpy(const HostTensor& t) { return descr(t.dtype()).empty() ? t.cast(DType::f32) : t; }

struct Member {
  std::string name;
  uint32_t crc = 0;
  uint64_t size = 0, offset = 0;
  bool wide() const { return size >= kMost32 || offset >= kMost32; }
};

// Writes the fields that a member's local header and its directory record have in common, from the version to the
// lengths of name and extra field.
void put_common(std::string& out, const Member& m, size_t extra) {
  put(out, m.wide() ? 45 : 20, 2);
  put(out, 0x800, 2);  // flags: the name is UTF-8
  put(out, 0, 2);      // method 0: no compression; time 0
  put(out, 0, 2);
  put(out, 0x21, 2);  // date: 1 January 1980
  put(out, m.crc, 4);
  put(out, m.wide() ? kMost32 : m.size, 4);
  put(out, m.wide() ? kMost32 : m.size, 4);
  put(out, m.name.size(), 2);
  put(out, extra, 2);
}

std::string local_header(const Member& m) {
  std::string out = "PK\x03\x04", extra;
  if (m.wide()) {
    put(extra, 1, 2);
    put(extra, 16, 2);
    put(extra, m.size, 8);
    put(extra, m.size, 8);
  }
  put_common(out, m, extra.size());
  return out + m.name + extra;
}

std::string directory_record(const Member& m) {
  std::string out = "PK\x01\x02", extra;
  if (m.wide()) {
    put(extra, 1, 2);
    put(extra, 24, 2);
    put(extra, m.size, 8);
    put(extra, m.size, 8);
    put(extra, m.offset, 8);
  }
  put(out, 45, 2);
  put_common(out, m, extra.size());
  out.append(10, '\0');  // comment, number of the disk, attributes
  put(out, m.wide() ? kMost32 : m.offset, 4);
  return out + m.name + extra;
}

std::string end_records(uint64_t members, uint64_t at, uint64_t size) {
  std::string out;
  const bool wide = members >= 0xffff || at >= kMost32 || size >= kMost32;
  if (wide) {
    out = "PK\x06\x06";
    put(out, 44, 8);
    put(out, 45, 2);
    put(out, 45, 2);
    put(out, 0, 8);  // number of this disk and of the directory's disk
    put(out, members, 8);
    put(out, members, 8);
    put(out, size, 8);
    put(out, at, 8);
    out += "PK\x06\x07";
    put(out, 0, 4);
    put(out, at + size, 8);
    put(out, 1, 4);
  }
  out += "PK\x05\x06";
  put(out, 0, 4);
  put(out, wide ? 0xffff : members, 2);
  put(out, wide ? 0xffff : members, 2);
  put(out, wide ? kMost32 : size, 4);
  put(out, wide ? kMost32 : at, 4);
  put(out, 0, 2);
  return out;
}

}  // namespace

void write_npy(const std::string& path, const HostTensor& tensor) {
  const HostTensor t = known_to_numpy(tensor);
  FileWriter file(path);
  file.write(npy_header(t));
  file.write(t.data(), t.bytes());
  file.commit();
}

void write_npz(const std::string& path, const std::vector<NamedTensor>& tensors) {
  FileWriter file(path);
  std::vector<Member> members;
  std::set<std::string> names;
  uint64_t at = 0;
  const auto write = [&](const std::string& text) {
    file.write(text);
    at += text.size();
  };
  for (const NamedTensor& n : tensors) {
    check(names.insert(n.name).second, "write_npz: two tensors of one name");
    const HostTensor t = known_to_numpy(n.tensor);
    const std::string header = npy_header(t);
    Member m{n.name + ".npy", 0, header.size() + static_cast<uint64_t>(t.bytes()), at};
    m.crc = static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(header.data()), header.size()));
    if (t.bytes() > 0)
      m.crc =
          static_cast<uint32_t>(crc32_z(m.crc, static_cast<const Bytef*>(t.data()), static_cast<size_t>(t.bytes())));
    write(local_header(m));
    write(header);
    file.write(t.data(), t.bytes());
    at += static_cast<uint64_t>(t.bytes());
    members.push_back(std::move(m));
  }
  const uint64_t directory = at;
  for (const Member& m : members) write(directory_record(m));
  write(end_records(members.size(), directory, at - directory));
  file.commit();
}

void require_tensor_file(const std::string& path) {
  for (const char* known : {".safetensors", ".npz", ".npy"}) {
    if (path.ends_with(known)) return;
  }
  fail(Exit::usage, "E_FILE_TYPE", cat("'", path, "' has no extension that names a tensor file"),
       "known: .safetensors, .npz, .npy");
}

void write_tensor_file(const std::string& path, const std::vector<NamedTensor>& tensors) {
  require_tensor_file(path);
  if (path.ends_with(".npz")) return write_npz(path, tensors);
  if (!path.ends_with(".npy")) return write_safetensors(path, tensors);
  if (tensors.size() != 1)
    fail(Exit::usage, "E_FILE_TYPE", cat("'", path, "': an .npy file holds one tensor, there are ", tensors.size()),
         "write an .npz or .safetensors file");
  write_npy(path, tensors[0].tensor);
}

}  // namespace amp
