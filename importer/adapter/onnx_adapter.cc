// Reads and writes FlatBuffers without its library. A table begins with the signed distance back to its vtable; a
// vtable holds its own size, the table's size and the position of each field in the table (0: absent). References are
// unsigned distances forward from the place where they are stored. Vectors and strings are a 32-bit count and the
// elements. All numbers are little-endian. https://flatbuffers.dev/internals
#include "importer/adapter/onnx_adapter.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"

namespace amp {
namespace {

constexpr char kIdentifier[] = "TORT";
constexpr int32_t kFormatVersion = 1;
constexpr int64_t kMostRank = 8;

struct TypeCode {
  DType type;
  int32_t code;  // value of onnx.TensorProto.DataType
};
constexpr TypeCode kTypes[] = {{DType::f32, 1}, {DType::f16, 10}, {DType::f64, 11}, {DType::bf16, 16}};

[[noreturn]] void malformed(const std::string& fact) {
  fail(Exit::data, "E_ADAPTER", cat("not a valid .onnx_adapter file: ", fact), "write or download the file again");
}

// Reads numbers at checked places of a file.
class FlatReader {
 public:
  explicit FlatReader(const FileBytes& file) : file_(file) {}

  template <class T>
  T at(int64_t place) const {
    require(place, sizeof(T), "a number");
    T value;
    std::memcpy(&value, file_.bytes.get() + place, sizeof(T));
    return value;
  }

  void require(int64_t place, int64_t bytes, const char* what) const {
    if (place < 0 || bytes < 0 || place > file_.size || bytes > file_.size - place)
      malformed(cat(what, " at byte ", place, " is beyond the file's ", file_.size, " bytes"));
  }

  // Returns the place to which the reference at `place` leads.
  int64_t follow(int64_t place) const {
    const int64_t to = place + at<uint32_t>(place);
    require(to, 4, "a reference's target");
    return to;
  }

  // Returns the place of the first element of the vector to which the reference at `place` leads; sets `count`.
  int64_t vector(int64_t place, int64_t element_bytes, int64_t& count) const {
    const int64_t begin = follow(place);
    count = at<uint32_t>(begin);
    require(begin + 4, count * element_bytes, "a vector");
    return begin + 4;
  }

  const uint8_t* bytes(int64_t place) const { return file_.bytes.get() + place; }
  int64_t size() const { return file_.size; }

 private:
  const FileBytes& file_;
};

class Table {
 public:
  Table(const FlatReader& reader, int64_t place) : reader_(reader), place_(place) {
    vtable_ = place - reader.at<int32_t>(place);
    vtable_bytes_ = reader.at<uint16_t>(vtable_);
    table_bytes_ = reader.at<uint16_t>(vtable_ + 2);
    if (vtable_bytes_ < 4 || vtable_bytes_ % 2 != 0 || table_bytes_ < 4) malformed("a table without a valid vtable");
    reader.require(vtable_, vtable_bytes_, "a vtable");
    reader.require(place, table_bytes_, "a table");
  }

  // Returns the place of a field of `bytes` bytes; -1 if the table does not have it.
  int64_t field(int index, int64_t bytes) const {
    const int64_t entry = 4 + 2 * index;
    if (entry + 2 > vtable_bytes_) return -1;
    const int64_t offset = reader_.at<uint16_t>(vtable_ + entry);
    if (offset == 0) return -1;
    if (offset < 4 || offset + bytes > table_bytes_) malformed("a field outside of its table");
    return place_ + offset;
  }

  int32_t number(int index) const {
    const int64_t place = field(index, 4);
    return place < 0 ? 0 : reader_.at<int32_t>(place);
  }

  int64_t reference(int index, const char* what) const {
    const int64_t place = field(index, 4);
    if (place < 0) malformed(cat("a table without ", what));
    return place;
  }

 private:
  const FlatReader& reader_;
  int64_t place_, vtable_ = 0, vtable_bytes_ = 0, table_bytes_ = 0;
};

Dims read_dims(const FlatReader& reader, int64_t reference) {
  int64_t rank = 0;
  const int64_t first = reader.vector(reference, 8, rank);
  if (rank > kMostRank) malformed(cat("a parameter with ", rank, " dimensions"));
  Dims dims;
  for (int64_t i = 0; i < rank; ++i) dims.push_back(reader.at<int64_t>(first + 8 * i));
  return dims;
}

DType read_type(int32_t code) {
  const auto* type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeCode& t) { return t.code == code; });
  if (type == std::end(kTypes)) {
    fail(Exit::data, "E_ADAPTER", cat("its elements are of ONNX type ", code),
         "adapters of float32, float16, bfloat16 and float64 are read");
  }
  return type->type;
}

// Returns the payload: a view of the file, or a copy if its position in the file is not aligned.
template <class Take>
HostTensor read_payload(const FlatReader& reader, int64_t reference, DType type, const Dims& dims,
                        const FileBytes& file, const Take& take) {
  int64_t count = 0, expected = size_of(type);
  const int64_t first = reader.vector(reference, 1, count);
  for (const int64_t d : dims) {
    if (d < 0 || __builtin_mul_overflow(expected, d, &expected)) malformed(cat("shape ", to_string(dims)));
  }
  take(count);
  if (expected != count)
    malformed(cat("shape ", to_string(dims), " of ", name_of(type), " takes ", expected, " bytes, there are ", count));
  const uint8_t* const p = reader.bytes(first);
  if (reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(size_of(type)) == 0)
    return HostTensor(type, dims, file.bytes, p);
  HostTensor copy = HostTensor::empty(type, dims);
  if (count > 0) std::memcpy(copy.mutable_data(), p, static_cast<size_t>(count));
  return copy;
}

// Appends to a buffer. Payloads are not copied: their places are reserved, so that a large adapter is written from its
// tensors.
class FlatWriter {
 public:
  template <class T>
  int64_t put(T value) {
    const int64_t place = size();
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return place;
  }
  // Stores at `place` the distance to the end of the buffer.
  void refer(int64_t place) {
    const auto distance = static_cast<uint32_t>(size() - place);
    std::memcpy(bytes_.data() + place, &distance, 4);
  }
  // Pads so that the elements after a 32-bit count begin at a multiple of `alignment`.
  void align_vector(int64_t alignment) {
    while ((size() + 4) % alignment != 0) bytes_ += '\0';
  }
  void text(std::string_view s) {
    put(static_cast<uint32_t>(s.size()));
    bytes_ += s;
    bytes_ += '\0';
    while (size() % 4 != 0) bytes_ += '\0';
  }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  // Returns the bytes so far and starts an empty buffer.
  std::string take() { return std::exchange(bytes_, std::string()); }

 private:
  std::string bytes_;
};

struct Laid {
  std::string head;                 // everything but the payloads
  std::vector<int64_t> places;      // position of each payload in the file
  std::vector<int64_t> references;  // position in `head` at which each payload's distance is stored
  int64_t size = 0;
};

int32_t type_code(DType type) {
  const auto* found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeCode& t) { return t.type == type; });
  check(found != std::end(kTypes), "an adapter's tensors are floating-point");
  return found->code;
}

constexpr int64_t kPayloadAlignment = 64;

// Lays out all tables first, then the payloads.
Laid lay_out(const OnnxAdapter& adapter) {
  constexpr uint16_t kFourFields[] = {12, 20, 4, 8, 12, 16};  // vtable size, table size, places of four 32-bit fields
  FlatWriter w;
  const auto put_vtable = [&] {
    const int64_t place = w.size();
    for (const uint16_t x : kFourFields) w.put(x);
    return static_cast<int32_t>(place);
  };
  w.put(uint32_t{0});
  for (int i = 0; i < 4; ++i) w.put(kIdentifier[i]);
  const int32_t vtable = put_vtable();
  w.refer(0);
  w.put(static_cast<int32_t>(w.size()) - vtable);
  w.put(kFormatVersion);
  w.put(adapter.adapter_version);
  w.put(adapter.model_version);
  const int64_t parameters = w.put(uint32_t{0});
  w.refer(parameters);
  w.put(static_cast<uint32_t>(adapter.parameters.size()));
  std::vector<int64_t> tables;
  for (size_t i = 0; i < adapter.parameters.size(); ++i) tables.push_back(w.put(uint32_t{0}));
  Laid out;
  for (size_t i = 0; i < adapter.parameters.size(); ++i) {
    const NamedTensor& p = adapter.parameters[i];
    w.refer(tables[i]);
    w.put(static_cast<int32_t>(w.size()) - vtable);
    const int64_t name = w.put(uint32_t{0}), dims = w.put(uint32_t{0});
    w.put(type_code(p.tensor.dtype()));
    out.references.push_back(w.put(uint32_t{0}));
    w.refer(name);
    w.text(p.name);
    w.align_vector(8);
    w.refer(dims);
    w.put(static_cast<uint32_t>(p.tensor.rank()));
    for (const int64_t d : p.tensor.dims()) w.put(d);
  }
  out.size = w.size();
  for (const NamedTensor& p : adapter.parameters) {
    out.size = (out.size + 4 + kPayloadAlignment - 1) / kPayloadAlignment * kPayloadAlignment;
    out.places.push_back(out.size);
    out.size += p.tensor.bytes();
  }
  out.head = w.take();
  return out;
}

}  // namespace

OnnxAdapter parse_onnx_adapter(const FileBytes& file) {
  const FlatReader reader(file);
  if (file.size < 8 || file.text().substr(4, 4) != kIdentifier) malformed("bytes 4 to 7 are not TORT");
  const Table root(reader, reader.follow(0));
  if (const int32_t version = root.number(0); version != kFormatVersion)
    malformed(cat("format version ", version, "; version ", kFormatVersion, " is read"));
  OnnxAdapter out;
  out.adapter_version = root.number(1);
  out.model_version = root.number(2);
  int64_t count = 0, taken = 0;
  const int64_t first = reader.vector(root.reference(3, "parameters"), 4, count);
  // In a damaged file, several references may lead to one long name or payload. The copies would take more memory than
  // the file.
  const auto take = [&](int64_t bytes) {
    if ((taken += bytes) > reader.size()) malformed("parameters share bytes");
  };
  std::set<std::string> seen;
  for (int64_t i = 0; i < count; ++i) {
    const Table parameter(reader, reader.follow(first + 4 * i));
    int64_t length = 0;
    const int64_t text = reader.vector(parameter.reference(0, "a name"), 1, length);
    take(length);
    const std::string name(reinterpret_cast<const char*>(reader.bytes(text)), static_cast<size_t>(length));
    if (name.empty() || find_invalid_utf8(name) != std::string::npos)
      malformed(cat("parameter ", i, " has no valid name"));
    if (!seen.insert(name).second) malformed(cat("parameter '", printable(name), "' occurs twice"));
    try {
      const DType type = read_type(parameter.number(2));
      const Dims dims = read_dims(reader, parameter.reference(1, "dims"));
      out.parameters.push_back(
          {name, read_payload(reader, parameter.reference(3, "raw_data"), type, dims, file, take)});
    } catch (Error& e) {
      throw e.at(cat("in parameter '", printable(name), "'"));
    }
  }
  return out;
}

OnnxAdapter read_onnx_adapter(const std::string& path) {
  const FileBytes file = read_file(path, Exit::data);
  try {
    return parse_onnx_adapter(file);
  } catch (Error& e) {
    throw e.at(cat("in '", printable(path), "'"));
  }
}

void write_onnx_adapter(const std::string& path, const OnnxAdapter& adapter) {
  Laid laid = lay_out(adapter);
  if (laid.size > INT32_MAX) {
    fail(Exit::unsupported, "E_ADAPTER_SIZE",
         cat("the adapter takes ", with_thousands(laid.size), " bytes, an .onnx_adapter file holds less than 2 GiB"),
         "use a smaller rank or fewer targets, or export a PEFT folder");
  }
  for (size_t i = 0; i < laid.places.size(); ++i) {
    const auto distance = static_cast<uint32_t>(laid.places[i] - 4 - laid.references[i]);
    std::memcpy(laid.head.data() + laid.references[i], &distance, 4);
  }
  FileWriter file(path, laid.size);
  file.write(laid.head);
  int64_t at = static_cast<int64_t>(laid.head.size());
  for (size_t i = 0; i < laid.places.size(); ++i) {
    const HostTensor& tensor = adapter.parameters[i].tensor;
    file.write(std::string(static_cast<size_t>(laid.places[i] - 4 - at), '\0'));
    const auto count = static_cast<uint32_t>(tensor.bytes());
    file.write(&count, 4);
    if (count > 0) file.write(tensor.data(), tensor.bytes());
    at = laid.places[i] + tensor.bytes();
  }
  file.commit();
}

}  // namespace amp
