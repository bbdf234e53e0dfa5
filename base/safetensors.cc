// Reader and writer of safetensors. The reader treats the file as untrusted: the header is limited in size and depth,
// and tensors must cover the data without gaps or overlap. Aligned tensors are views of the file's bytes.
#include "base/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"

namespace amp {

namespace {

using nlohmann::json;
constexpr int64_t kMaxHeader = 100'000'000;  // limit of the reference implementation

// Element types in the order of the reference implementation's enumeration, by which its writer sorts tensors.
constexpr struct {
  DType type;
  const char* name;
} kTypes[] = {{DType::boolean, "BOOL"}, {DType::u8, "U8"},   {DType::i8, "I8"},     {DType::i16, "I16"},
              {DType::u16, "U16"},      {DType::f16, "F16"}, {DType::bf16, "BF16"}, {DType::i32, "I32"},
              {DType::u32, "U32"},      {DType::f32, "F32"}, {DType::f64, "F64"},   {DType::i64, "I64"},
              {DType::u64, "U64"}};

size_t rank_of(DType t) {
  size_t i = 0;
  while (kTypes[i].type != t) ++i;
  return i;
}

struct Entry {
  std::string name;
  DType dtype;
  Dims dims;
  int64_t begin, end;
};

const char* tensors_id(Exit exit) { return exit == Exit::checkpoint ? "E_CKPT_TENSORS" : "E_SAFETENSORS"; }

[[noreturn]] void malformed(Exit exit, const std::string& fact) {
  fail(exit, tensors_id(exit), fact, "the file is damaged or is not a safetensors file; write it again");
}

json parse_header(std::string_view text, Exit exit) {
  std::set<std::string> names;
  std::string problem;
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > 8) problem = "the header is nested too deeply";
    if (event == json::parse_event_t::key && depth == 1 && !names.insert(value.get<std::string>()).second) {
      problem = cat("two tensors are named '", printable(value.get<std::string>()), "'");
    }
    return problem.empty();
  };
  json header;
  try {
    header = json::parse(text, watch);
  } catch (const json::exception& e) {
    malformed(exit, cat("the header is not JSON: ", printable(e.what())));
  }
  if (!problem.empty()) malformed(exit, problem);
  if (!header.is_object()) malformed(exit, "the header is not a JSON object");
  return header;
}

int64_t integer(const json& v, Exit exit, const char* what) {
  if (!v.is_number_unsigned() || v.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    malformed(exit, cat(what, " is not a non-negative integer"));
  }
  return v.get<int64_t>();
}

Entry parse_entry(const std::string& name, const json& v, Exit exit) {
  if (!v.is_object() || !v.contains("dtype") || !v.contains("shape") || !v.contains("data_offsets")) {
    malformed(exit, "dtype, shape and data_offsets are needed");
  }
  Entry e{name, DType::f32, {}, 0, 0};
  if (!v["dtype"].is_string()) malformed(exit, "dtype is not a string");
  const auto dtype = v["dtype"].get<std::string>();
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& t) { return dtype == t.name; });
  if (type == std::end(kTypes)) {
    fail(exit, tensors_id(exit), cat("element type '", printable(dtype), "' is not supported"),
         "known: F64 F32 F16 BF16 I64 I32 I16 I8 U64 U32 U16 U8 BOOL");
  }
  e.dtype = type->type;
  if (!v["shape"].is_array()) malformed(exit, "shape is not an array");
  for (const json& d : v["shape"]) e.dims.push_back(integer(d, exit, "a dimension"));
  const json& offsets = v["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) malformed(exit, "data_offsets is not a pair");
  e.begin = integer(offsets[0], exit, "an offset");
  e.end = integer(offsets[1], exit, "an offset");
  int64_t bytes = size_of(e.dtype);
  for (const int64_t d : e.dims) {
    if (__builtin_mul_overflow(bytes, d, &bytes)) malformed(exit, cat("shape ", to_string(e.dims), " overflows"));
  }
  if (e.end < e.begin || e.end - e.begin != bytes) {
    malformed(exit, cat("shape ", to_string(e.dims), " of ", dtype, " takes ", bytes, " bytes, the offsets [", e.begin,
                        ",", e.end, "] hold ", e.end - e.begin));
  }
  return e;
}

HostTensor view(const Entry& e, const FileBytes& file, int64_t data_start) {
  uint8_t* p = file.bytes.get() + data_start + e.begin;
  const int64_t size = e.end - e.begin;
  if (e.dtype == DType::boolean) {
    for (int64_t i = 0; i < size; ++i) p[i] = p[i] != 0;  // a C++ bool must be 0 or 1
  }
  if (reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(size_of(e.dtype)) == 0) {
    return HostTensor(e.dtype, e.dims, file.bytes, p);
  }
  HostTensor t = HostTensor::empty(e.dtype, e.dims);
  std::memcpy(t.mutable_data(), p, static_cast<size_t>(size));
  return t;
}

SafeTensors parse(const FileBytes& file, Exit exit) {
  if (file.size < 8) malformed(exit, cat("the file has ", file.size, " bytes, a header length takes 8"));
  uint64_t length;
  std::memcpy(&length, file.bytes.get(), 8);
  if (length > static_cast<uint64_t>(std::min(kMaxHeader, file.size - 8))) {
    malformed(exit, cat("the header length says ", length, ", ", file.size - 8, " bytes follow (at most ", kMaxHeader,
                        " allowed)"));
  }
  const json header = parse_header(file.text().substr(8, length), exit);
  const int64_t data_start = 8 + static_cast<int64_t>(length), data_size = file.size - data_start;
  SafeTensors out;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    try {
      if (name != "__metadata__") {
        entries.push_back(parse_entry(name, value, exit));
        continue;
      }
      if (!value.is_object()) malformed(exit, "not an object");
      for (const auto& [key, text] : value.items()) {
        if (!text.is_string()) malformed(exit, cat("the value of '", printable(key), "' is not a string"));
        out.metadata[key] = text.get<std::string>();
      }
    } catch (Error& e) {
      throw e.at(cat("in tensor '", printable(name), "'"));
    }
  }
  // Sorted by offset, tensors must cover the data without gaps and without overlap.
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  int64_t at = 0;
  for (const Entry& e : entries) {
    if (e.begin != at) {
      malformed(exit, cat("tensor '", printable(e.name), "' begins at ", e.begin, ", the one before it ends at ", at));
    }
    at = e.end;
  }
  if (at != data_size) malformed(exit, cat("the tensors take ", at, " bytes, the file holds ", data_size));
  for (const Entry& e : entries) out.tensors.push_back({e.name, view(e, file, data_start)});
  return out;
}

}  // namespace

const HostTensor* find_tensor(const std::vector<NamedTensor>& tensors, const std::string& name) {
  for (const NamedTensor& t : tensors) {
    if (t.name == name) return &t.tensor;
  }
  return nullptr;
}

SafeTensors parse_safetensors(const FileBytes& file, Exit exit) { return parse(file, exit); }

SafeTensors read_safetensors(const std::string& path, Exit exit) {
  return parse_safetensors(read_file(path, exit), path, exit);
}

SafeTensors parse_safetensors(const FileBytes& file, const std::string& path, Exit exit) {
  try {
    return parse(file, exit);
  } catch (Error& e) {
    throw e.at(cat("in '", path, "'"));
  }
}

void write_safetensors(const ByteSink& sink, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& t : tensors) order.push_back(&t);
  std::sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    const size_t x = rank_of(a->tensor.dtype()), y = rank_of(b->tensor.dtype());
    return x != y ? x > y : a->name < b->name;
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t at = 0;
  for (const NamedTensor* t : order) {
    check(!header.contains(t->name) && t->name != "__metadata__", "write_safetensors: a tensor's name is taken");
    const int64_t end = at + t->tensor.bytes();
    header[t->name] = {
        {"dtype", kTypes[rank_of(t->tensor.dtype())].name}, {"shape", t->tensor.dims()}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    fail(Exit::unsupported, "E_NAME_UTF8", "a tensor's name is not UTF-8: the safetensors format cannot hold it");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  sink(&length, 8);
  sink(text.data(), static_cast<int64_t>(text.size()));
  for (const NamedTensor* t : order) {
    if (t->tensor.bytes() > 0) sink(t->tensor.data(), t->tensor.bytes());
  }
}

void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  FileWriter file(path);
  write_safetensors([&](const void* p, int64_t n) { file.write(p, n); }, tensors, metadata);
  file.commit();
}

}  // namespace amp
