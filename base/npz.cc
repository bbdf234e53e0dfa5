#include "base/npz.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <span>

#include "base/file.h"
#include "base/text.h"

namespace amp {

namespace {

using Bytes = std::span<const uint8_t>;

struct Reader {
  Exit exit;
  [[noreturn]] void malformed(const std::string& fact, const std::string& hint = {}) const {
    fail(exit, "E_DATA_NPY", fact, hint);
  }
};

uint64_t little_endian(Bytes b, size_t at, size_t bytes) {
  uint64_t v = 0;
  for (size_t i = 0; i < bytes; ++i) v |= static_cast<uint64_t>(b[at + i]) << (8 * i);
  return v;
}

// The header's Python dictionary, of which only these three keys in any order are allowed.
struct NpyHeader {
  std::string descr;
  bool fortran = false;
  Dims dims;
};

class HeaderParser {
 public:
  HeaderParser(const Reader& r, std::string_view text) : r_(r), text_(text) {}

  NpyHeader parse() {
    NpyHeader h;
    std::set<std::string> seen;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (!seen.insert(key).second) r_.malformed(cat("the header repeats '", printable(key), "'"));
      if (key == "descr") {
        skip_space();
        if (at_ < text_.size() && text_[at_] == '[') r_.malformed("the element type is a structure: not supported");
        h.descr = quoted();
      } else if (key == "fortran_order") {
        h.fortran = boolean();
      } else if (key == "shape") {
        h.dims = tuple();
      } else {
        r_.malformed(cat("unknown header key '", printable(key), "'"));
      }
      accept(',');
    }
    skip_space();
    if (at_ != text_.size()) r_.malformed("the header has text after its dictionary");
    if (seen.size() != 3) r_.malformed("the header lacks one of descr, fortran_order, shape");
    return h;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) r_.malformed(cat("the header is not a dictionary: '", c, "' expected at byte ", at_));
  }
  std::string quoted() {
    skip_space();
    const char q = at_ < text_.size() ? text_[at_] : ' ';
    const size_t end = q == '\'' || q == '"' ? text_.find(q, at_ + 1) : std::string_view::npos;
    if (end == std::string_view::npos) r_.malformed(cat("the header has no string at byte ", at_));
    const auto s = std::string(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return s;
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair{std::string_view("True"), true}, {std::string_view("False"), false}}) {
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    r_.malformed("fortran_order is neither True nor False");
  }
  Dims tuple() {
    Dims dims;
    expect('(');
    while (!accept(')')) {
      skip_space();
      const size_t start = at_;
      int64_t v = 0;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
        if (__builtin_mul_overflow(v, int64_t{10}, &v) || __builtin_add_overflow(v, text_[at_] - '0', &v)) {
          r_.malformed("shape: a dimension overflows 64 bits");
        }
        ++at_;
      }
      if (at_ == start) r_.malformed("shape is not a tuple of non-negative integers");
      dims.push_back(v);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    if (dims.size() > 64) r_.malformed(cat("shape has ", dims.size(), " dimensions, at most 64 are allowed"));
    return dims;
  }

  const Reader& r_;
  std::string_view text_;
  size_t at_ = 0;
};

DType dtype_of(const Reader& r, const std::string& descr) {
  constexpr std::pair<const char*, DType> kTypes[] = {{"f4", DType::f32}, {"f8", DType::f64}, {"f2", DType::f16},
                                                      {"i1", DType::i8},  {"i2", DType::i16}, {"i4", DType::i32},
                                                      {"i8", DType::i64}, {"u1", DType::u8},  {"u2", DType::u16},
                                                      {"u4", DType::u32}, {"u8", DType::u64}, {"b1", DType::boolean}};
  if (descr.size() >= 2 && descr[1] == 'O')
    r.malformed("the array holds Python objects (pickle), which are never loaded");
  if (!descr.empty() && descr[0] == '>') {
    r.malformed(cat("the array is big-endian (", printable(descr), ")"),
                "save it with .astype('<" + descr.substr(1) + "')");
  }
  for (const auto& [name, type] : kTypes) {
    if (descr.size() == 3 && (descr[0] == '<' || descr[0] == '|') && descr.substr(1) == name) return type;
  }
  r.malformed(cat("element type '", printable(descr), "' is not supported"),
              "known: f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1");
}

HostTensor parse_npy(const Reader& r, Bytes b) {
  if (b.size() < 10 || std::memcmp(b.data(), "\x93NUMPY", 6) != 0) r.malformed("wrong magic: not a .npy array");
  const int major = b[6];
  if (major < 1 || major > 3) r.malformed(cat("format version ", major, " is not known"));
  const size_t start = major == 1 ? 10 : 12;
  if (b.size() < start) r.malformed("the header is cut off");
  const uint64_t length = little_endian(b, 8, major == 1 ? 2 : 4);
  if (length > b.size() - start) r.malformed(cat("header length ", length, " is beyond the end of the data"));
  const NpyHeader h = HeaderParser(r, {reinterpret_cast<const char*>(b.data()) + start, length}).parse();
  const DType dtype = dtype_of(r, h.descr);
  int64_t bytes = size_of(dtype);
  for (const int64_t d : h.dims) {
    if (__builtin_mul_overflow(bytes, d, &bytes)) r.malformed(cat("shape ", to_string(h.dims), " overflows"));
  }
  const size_t have = b.size() - start - length;
  if (have != static_cast<uint64_t>(bytes)) {
    r.malformed(
        cat("shape ", to_string(h.dims), " of ", name_of(dtype), " takes ", bytes, " bytes, ", have, " follow"));
  }
  if (h.fortran && std::count_if(h.dims.begin(), h.dims.end(), [](int64_t d) { return d > 1; }) > 1) {
    r.malformed("fortran_order: the array is stored by columns", "save it with numpy.ascontiguousarray");
  }
  HostTensor t = HostTensor::empty(dtype, h.dims);
  if (bytes > 0) std::memcpy(t.mutable_data(), b.data() + start + length, static_cast<size_t>(bytes));
  if (dtype == DType::boolean) {
    auto* p = static_cast<uint8_t*>(t.mutable_data());
    for (int64_t i = 0; i < bytes; ++i) p[i] = p[i] != 0;
  }
  return t;
}

std::vector<uint8_t> inflate_all(const Reader& r, Bytes packed, uint64_t size) {
  // Deflate packs at most 1032:1, so a larger claim is a lie that would cost memory.
  if (size / 1032 > packed.size() + 16) r.malformed(cat(packed.size(), " packed bytes cannot hold ", size));
  std::vector<uint8_t> out(size + 1);  // one spare byte shows a stream longer than it says
  z_stream z{};
  if (inflateInit2(&z, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  int code = Z_OK;
  size_t in = 0, done = 0;
  while (code == Z_OK) {
    z.next_in = const_cast<uint8_t*>(packed.data() + in);
    z.avail_in = static_cast<uInt>(std::min<size_t>(packed.size() - in, 1u << 30));
    z.next_out = out.data() + done;
    z.avail_out = static_cast<uInt>(std::min<size_t>(out.size() - done, 1u << 30));
    const uInt in_before = z.avail_in, out_before = z.avail_out;
    code = inflate(&z, Z_NO_FLUSH);
    in += in_before - z.avail_in;
    done += out_before - z.avail_out;
  }
  inflateEnd(&z);
  if (code != Z_STREAM_END || done != size) r.malformed("the packed bytes are damaged or cut off");
  out.resize(size);
  return out;
}

struct Member {
  std::string name;
  uint64_t method = 0, crc = 0, packed = 0, size = 0, offset = 0;
};

constexpr uint64_t kAll32 = 0xffffffff;

// A central directory record at `at`, its 64-bit extra field applied; at moves behind it.
Member parse_record(const Reader& r, Bytes b, uint64_t& at) {
  if (at > b.size() || b.size() - at < 46 || little_endian(b, at, 4) != 0x02014b50)
    r.malformed("damaged zip directory");
  Member m;
  const uint64_t flags = little_endian(b, at + 8, 2);
  m.method = little_endian(b, at + 10, 2);
  m.crc = little_endian(b, at + 16, 4);
  m.packed = little_endian(b, at + 20, 4);
  m.size = little_endian(b, at + 24, 4);
  m.offset = little_endian(b, at + 42, 4);
  const uint64_t name = little_endian(b, at + 28, 2), extra = little_endian(b, at + 30, 2);
  const uint64_t total = 46 + name + extra + little_endian(b, at + 32, 2);
  if (total > b.size() - at) r.malformed("damaged zip directory");
  m.name.assign(reinterpret_cast<const char*>(b.data()) + at + 46, name);
  if (flags & 1) r.malformed(cat("member '", printable(m.name), "' is encrypted"));
  Bytes fields = b.subspan(at + 46 + name, extra);
  while (fields.size() >= 4) {
    const uint64_t id = little_endian(fields, 0, 2), length = little_endian(fields, 2, 2);
    if (length > fields.size() - 4) r.malformed("damaged zip directory");
    Bytes value = fields.subspan(4, length);
    for (uint64_t* v :
         {&m.size, &m.packed, &m.offset}) {  // zip64: present for those that say 0xffffffff, in this order
      if (id != 1 || *v != kAll32) continue;
      if (value.size() < 8) r.malformed("damaged zip64 field");
      *v = little_endian(value, 0, 8);
      value = value.subspan(8);
    }
    fields = fields.subspan(4 + length);
  }
  at += total;
  return m;
}

std::vector<Member> directory(const Reader& r, Bytes b) {
  if (b.size() < 22) r.malformed("too short to be a zip archive");
  // The end record is 22 bytes and a comment of up to 65,535.
  const uint64_t first = b.size() - 22 > 65535 ? b.size() - 22 - 65535 : 0;
  uint64_t end = b.size() - 22;
  while (little_endian(b, end, 4) != 0x06054b50) {
    if (end == first) r.malformed("not a zip archive, or its end is cut off");
    --end;
  }
  uint64_t count = little_endian(b, end + 10, 2), at = little_endian(b, end + 16, 4);
  if ((count == 0xffff || at == kAll32) && end >= 20 && little_endian(b, end - 20, 4) == 0x07064b50) {
    const uint64_t end64 = little_endian(b, end - 12, 8);
    if (end64 > b.size() || b.size() - end64 < 56 || little_endian(b, end64, 4) != 0x06064b50) {
      r.malformed("damaged zip64 end record");
    }
    count = little_endian(b, end64 + 32, 8);
    at = little_endian(b, end64 + 48, 8);
  }
  std::vector<Member> members;
  for (uint64_t i = 0; i < count; ++i) members.push_back(parse_record(r, b, at));
  return members;
}

HostTensor read_member(const Reader& r, Bytes b, const Member& m) {
  const uint64_t at = m.offset;
  if (at > b.size() || b.size() - at < 30 || little_endian(b, at, 4) != 0x04034b50)
    r.malformed("damaged member header");
  const uint64_t skip = 30 + little_endian(b, at + 26, 2) + little_endian(b, at + 28, 2);
  if (skip > b.size() - at || m.packed > b.size() - at - skip) r.malformed("the member is beyond the end of the file");
  Bytes data = b.subspan(at + skip, m.packed);
  std::vector<uint8_t> unpacked;
  if (m.method == 8) {
    unpacked = inflate_all(r, data, m.size);
    data = unpacked;
  } else if (m.method != 0) {
    r.malformed(cat("zip method ", m.method, " is not supported"), "use numpy.savez or numpy.savez_compressed");
  } else if (m.packed != m.size) {
    r.malformed("a stored member has two sizes");
  }
  if (crc32_z(0, data.data(), data.size()) != m.crc) r.malformed("checksum mismatch: the file is damaged");
  return parse_npy(r, data);
}

bool ends_with(std::string_view s, std::string_view end) {
  return s.size() >= end.size() && s.substr(s.size() - end.size()) == end;
}

}  // namespace

HostTensor read_npy(const std::string& path, Exit exit) {
  const FileBytes file = read_file(path, exit);
  try {
    return parse_npy({exit}, {file.bytes.get(), static_cast<size_t>(file.size)});
  } catch (Error& e) {
    throw e.at(cat("in '", path, "'"));
  }
}

std::vector<NamedTensor> read_npz(const std::string& path, Exit exit) {
  const FileBytes file = read_file(path, exit);
  const Reader r{exit};
  const Bytes b{file.bytes.get(), static_cast<size_t>(file.size)};
  std::string current;
  try {
    std::vector<NamedTensor> out;
    std::set<std::string> names;
    for (const Member& m : directory(r, b)) {
      current = m.name;
      if (!ends_with(m.name, ".npy")) r.malformed("the member is not a .npy array");
      const std::string name = m.name.substr(0, m.name.size() - 4);
      if (!names.insert(name).second) r.malformed("two members have this name");
      out.push_back({name, read_member(r, b, m)});
    }
    return out;
  } catch (Error& e) {
    if (!current.empty()) e.at(cat("in member '", printable(current), "'"));
    throw e.at(cat("in '", path, "'"));
  }
}

std::vector<NamedTensor> read_tensor_file(const std::string& path, Exit exit) {
  if (ends_with(path, ".safetensors")) return read_safetensors(path, exit).tensors;
  if (ends_with(path, ".npz")) return read_npz(path, exit);
  require_tensor_file(path);
  const std::string file = path.substr(path.rfind('/') + 1);
  return {{file.substr(0, file.size() - 4), read_npy(path, exit)}};
}

}  // namespace amp
