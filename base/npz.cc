// Parser of .npy and .npz (libzip reads the zip archive). Files are untrusted: sizes are checked before memory is
// allocated, and nothing is unpickled.
#include "base/npz.h"

#include <zip.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <set>

#include "base/file.h"
#include "base/limits.h"
#include "base/mapped_file.h"
#include "base/text.h"

namespace amp {

namespace {

const char* npy_id(Exit exit) {
  check(exit == Exit::data, "an .npy file that is no data: an id has one exit code");
  return "E_DATA_NPY";
}

struct Reader {
  Exit exit;
  [[noreturn]] void malformed(const std::string& fact, const std::string& hint = {}) const {
    fail(exit, npy_id(exit), fact, hint);
  }
};

// The header of a .npy file. It is a Python dictionary with exactly these three keys, in any order.
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
    std::string s(text_.substr(at_ + 1, end - at_ - 1));
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

// Reads the bytes of an array, in order and once.
struct Source {
  uint64_t left;
  std::function<void(void* to, uint64_t n)> read;
  void take(void* to, uint64_t n) {
    check(n <= left, "npz: a read beyond the end");
    read(to, n);
    left -= n;
  }
};

uint64_t little_endian(const uint8_t* p, int bytes) {
  uint64_t v = 0;
  for (int i = 0; i < bytes; ++i) v |= static_cast<uint64_t>(p[i]) << (8 * i);
  return v;
}

NpyHeader read_header(const Reader& r, Source& source) {
  uint8_t start[12] = {};
  if (source.left < 10) r.malformed("wrong magic: not a .npy array");
  source.take(start, 10);
  if (std::memcmp(start, "\x93NUMPY", 6) != 0) r.malformed("wrong magic: not a .npy array");
  const int major = start[6];
  if (major < 1 || major > 3) r.malformed(cat("format version ", major, " is not known"));
  if (major > 1) {
    if (source.left < 2) r.malformed("the header is cut off");
    source.take(start + 10, 2);
  }
  const uint64_t length = little_endian(start + 8, major == 1 ? 2 : 4);
  if (length > source.left) r.malformed(cat("header length ", length, " is beyond the end of the data"));
  std::string text(length, ' ');
  source.take(text.data(), length);
  return HeaderParser(r, text).parse();
}

HostTensor parse_array(const Reader& r, Source& source, const std::string& name, const TensorCheck& check) {
  const NpyHeader h = read_header(r, source);
  const DType dtype = dtype_of(r, h.descr);
  int64_t bytes = size_of(dtype);
  for (const int64_t d : h.dims) {
    if (__builtin_mul_overflow(bytes, d, &bytes)) r.malformed(cat("shape ", to_string(h.dims), " overflows"));
  }
  if (source.left != static_cast<uint64_t>(bytes)) {
    r.malformed(
        cat("shape ", to_string(h.dims), " of ", name_of(dtype), " takes ", bytes, " bytes, ", source.left, " follow"));
  }
  if (h.fortran && std::count_if(h.dims.begin(), h.dims.end(), [](int64_t d) { return d > 1; }) > 1) {
    r.malformed("fortran_order: the array is stored by columns", "save it with numpy.ascontiguousarray");
  }
  if (check) check(name, dtype, h.dims);
  HostTensor t = HostTensor::empty(dtype, h.dims);
  if (bytes > 0) source.take(t.mutable_data(), static_cast<uint64_t>(bytes));
  if (dtype == DType::boolean) {
    auto* p = static_cast<uint8_t*>(t.mutable_data());
    for (int64_t i = 0; i < bytes; ++i) p[i] = p[i] != 0;
  }
  return t;
}

class Archive {
 public:
  Archive(const Reader& r, const FileBytes& file) {
    // An empty file is refused here, because libzip would accept it as an empty archive.
    if (file.size < 22) r.malformed("too short to be a zip archive");
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t* source = zip_source_buffer_create(file.bytes.get(), static_cast<uint64_t>(file.size), 0, &error);
    zip_ = source ? zip_open_from_source(source, ZIP_RDONLY, &error) : nullptr;
    if (zip_) return;
    if (source) zip_source_free(source);
    const std::string said = zip_error_strerror(&error);
    zip_error_fini(&error);
    r.malformed("not a zip archive, or damaged: " + said);
  }
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;
  ~Archive() { zip_discard(zip_); }
  operator zip_t*() const { return zip_; }

 private:
  zip_t* zip_ = nullptr;
};

// Checks a member's declared sizes, before memory is allocated for it.
void check_member(const Reader& r, const zip_stat_t& m, uint64_t file_size) {
  if (m.encryption_method != ZIP_EM_NONE) r.malformed("the member is encrypted");
  if (m.comp_method != ZIP_CM_STORE && m.comp_method != ZIP_CM_DEFLATE) {
    r.malformed(cat("zip method ", m.comp_method, " is not supported"), "use numpy.savez or numpy.savez_compressed");
  }
  if (m.comp_size > file_size) r.malformed("the member is beyond the end of the file");
  // Deflate compresses at most 1032:1; a larger declared size is false and would waste memory.
  const uint64_t most = m.comp_method == ZIP_CM_STORE ? m.comp_size : 1032 * (m.comp_size + 16);
  if (m.size > most) r.malformed(cat(m.comp_size, " packed bytes cannot hold ", m.size));
}

HostTensor read_member(const Reader& r, zip_t* archive, const zip_stat_t& m, const std::string& name,
                       const TensorCheck& check) {
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(zip_fopen_index(archive, m.index, 0), zip_fclose);
  if (!file) r.malformed(cat("the member is damaged: ", zip_error_strerror(zip_get_error(archive))));
  const auto damaged = [&] {
    r.malformed(cat("the member is damaged or cut off: ", zip_error_strerror(zip_file_get_error(file.get()))));
  };
  Source source{m.size, [&](void* to, uint64_t n) {
                  for (auto* p = static_cast<char*>(to); n > 0;) {
                    const zip_int64_t got = zip_fread(file.get(), p, n);
                    if (got <= 0) damaged();
                    p += got;
                    n -= static_cast<uint64_t>(got);
                  }
                }};
  HostTensor t = parse_array(r, source, name, check);
  char more;
  if (zip_fread(file.get(), &more, 1) != 0) damaged();  // libzip compares the checksum at the end
  return t;
}

// Lists the members and checks their sizes. The decompression limit applies to the archive as a whole, because one
// tensor of equal numbers, such as a mask of ones, may be compressed a thousand times.
std::vector<zip_stat_t> members_of(const Reader& r, zip_t* archive, uint64_t file_size, std::string& current) {
  constexpr uint64_t kSmall = uint64_t{64} << 20;
  std::vector<zip_stat_t> members;
  uint64_t bytes = 0;
  const zip_int64_t count = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t m;
    if (zip_stat_index(archive, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW, &m) != 0) {
      r.malformed(zip_error_strerror(zip_get_error(archive)));
    }
    current = m.name;
    check_member(r, m, file_size);
    if (__builtin_add_overflow(bytes, m.size, &bytes)) r.malformed("the sizes of the members overflow");
    members.push_back(m);
  }
  current.clear();
  if (bytes > std::max(kSmall, file_size * kMostGrowth)) {
    r.malformed(cat("holds ", with_thousands(static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX))), " bytes in ",
                    with_thousands(static_cast<int64_t>(file_size)), ": it is refused as a decompression bomb"),
                "save it with numpy.savez if it is what it should be");
  }
  return members;
}

}  // namespace

HostTensor read_npy(const std::string& path, Exit exit) { return parse_npy(read_file(path, exit), path, exit); }

HostTensor parse_npy(const FileBytes& file, const std::string& path, Exit exit, const std::string& name,
                     const TensorCheck& check) {
  const uint8_t* next = file.bytes.get();
  Source source{static_cast<uint64_t>(file.size), [&](void* to, uint64_t n) {
                  std::memcpy(to, next, n);
                  next += n;
                }};
  try {
    return parse_array({exit}, source, name, check);
  } catch (Error& e) {
    throw e.at(cat("in '", printable(path), "'"));
  }
}

std::vector<NamedTensor> read_npz(const std::string& path, Exit exit, const TensorCheck& check) {
  return parse_npz(read_file(path, exit), path, exit, check);
}

std::vector<NamedTensor> parse_npz(const FileBytes& file, const std::string& path, Exit exit,
                                   const TensorCheck& check) {
  const Reader r{exit};
  std::string current;
  try {
    std::vector<NamedTensor> out;
    std::set<std::string> names;
    const Archive archive(r, file);
    for (const zip_stat_t& m : members_of(r, archive, static_cast<uint64_t>(file.size), current)) {
      current = m.name;
      if (!current.ends_with(".npy")) r.malformed("the member is not a .npy array");
      const std::string name = current.substr(0, current.size() - 4);
      if (!names.insert(name).second) r.malformed("two members have this name");
      out.push_back({name, read_member(r, archive, m, name, check)});
    }
    return out;
  } catch (Error& e) {
    if (!current.empty()) e.at(cat("in member '", printable(current), "'"));
    throw e.at(cat("in '", printable(path), "'"));
  }
}

std::vector<NamedTensor> read_tensor_file(const std::string& path, Exit exit, const TensorCheck& check) {
  if (path.ends_with(".safetensors")) {  // read before `check` is called, which is cheap because large files are mapped
    std::vector<NamedTensor> tensors = parse_safetensors(read_or_map(path, exit), path, exit).tensors;
    for (const NamedTensor& t : tensors) {
      if (check) check(t.name, t.tensor.dtype(), t.tensor.dims());
    }
    return tensors;
  }
  if (path.ends_with(".npz")) return read_npz(path, exit, check);
  require_tensor_file(path);
  const std::string file = path.substr(path.rfind('/') + 1), name = file.substr(0, file.size() - 4);
  return {{name, parse_npy(read_file(path, exit), path, exit, name, check)}};
}

}  // namespace amp
