// Converts between TensorProto and HostTensor. ONNX stores a payload as raw_data or in a typed field that depends on
// the element type. For example, 16-bit floats and small integers are stored in int32_data, u32 in uint64_data. Files
// are untrusted: count and size are checked before use.
#include "importer/read/tensor.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace amp {
namespace {

using T = onnx::TensorProto;
constexpr int64_t kMaxRank = 64;
constexpr int kFloat6E2M3 = 27, kFloat6E3M2 = 28;  // of ONNX 1.23; the linked library may be older

// Returns the number of entries in the typed field that ONNX prescribes for the element type.
int typed_entries(const T& t, DType d) {
  switch (d) {
    case DType::f32:
      return t.float_data_size();
    case DType::f64:
      return t.double_data_size();
    case DType::i64:
      return t.int64_data_size();
    case DType::u32:
    case DType::u64:
      return t.uint64_data_size();
    default:
      return t.int32_data_size();
  }
}

int all_typed_entries(const T& t) {
  return t.float_data_size() + t.double_data_size() + t.int64_data_size() + t.uint64_data_size() + t.int32_data_size() +
         t.string_data_size();
}

HostTensor decode_typed(const T& t, DType d, Dims dims) {
  HostTensor out = HostTensor::empty(d, std::move(dims));
  void* p = out.mutable_data();
  const size_t bytes = static_cast<size_t>(out.bytes());
  if (bytes == 0) return out;
  switch (d) {
    case DType::f32:
      std::memcpy(p, t.float_data().data(), bytes);
      return out;
    case DType::f64:
      std::memcpy(p, t.double_data().data(), bytes);
      return out;
    case DType::i64:
      std::memcpy(p, t.int64_data().data(), bytes);
      return out;
    case DType::u64:
      std::memcpy(p, t.uint64_data().data(), bytes);
      return out;
    case DType::u32:
      for (int i = 0; i < t.uint64_data_size(); ++i) {
        static_cast<uint32_t*>(p)[i] = static_cast<uint32_t>(t.uint64_data(i));
      }
      return out;
    default:
      break;
  }
  // int32_data holds one element per entry, in its low bytes (little endian); for 16-bit floats the bit pattern.
  const size_t size = static_cast<size_t>(size_of(d));
  for (int i = 0; i < t.int32_data_size(); ++i) {
    int32_t entry = t.int32_data(i);
    if (d == DType::boolean) entry = entry != 0;
    std::memcpy(static_cast<char*>(p) + static_cast<size_t>(i) * size, &entry, size);
  }
  return out;
}

}  // namespace

std::optional<DType> dtype_of(int onnx_type) {
  switch (onnx_type) {
    case T::FLOAT:
      return DType::f32;
    case T::DOUBLE:
      return DType::f64;
    case T::FLOAT16:
      return DType::f16;
    case T::BFLOAT16:
      return DType::bf16;
    case T::INT8:
      return DType::i8;
    case T::INT16:
      return DType::i16;
    case T::INT32:
      return DType::i32;
    case T::INT64:
      return DType::i64;
    case T::UINT8:
      return DType::u8;
    case T::UINT16:
      return DType::u16;
    case T::UINT32:
      return DType::u32;
    case T::UINT64:
      return DType::u64;
    case T::BOOL:
      return DType::boolean;
    default:
      return std::nullopt;
  }
}

int onnx_type_of(DType t) {
  for (int i = 1; i < 32; ++i) {
    if (dtype_of(i) == t) return i;
  }
  bug("no ONNX type for an element type");
}

std::string onnx_type_name(int onnx_type) {
  if (onnx_type == kFloat6E2M3) return "FLOAT6E2M3";
  if (onnx_type == kFloat6E3M2) return "FLOAT6E3M2";
  if (T::DataType_IsValid(onnx_type)) return T::DataType_Name(static_cast<T::DataType>(onnx_type));
  return cat("type ", onnx_type);
}

Dims checked_dims(const T& t, DType dtype) {
  if (t.dims_size() > kMaxRank) fail(Exit::model, "E_RANK", cat("rank ", t.dims_size(), " is above ", kMaxRank));
  Dims dims(t.dims().begin(), t.dims().end());
  int64_t bytes = size_of(dtype);
  bool empty = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) fail(Exit::model, "E_DIM_NEG", cat("dimension ", i, " is ", dims[i]));
    empty = empty || dims[i] == 0;
  }
  for (const int64_t d : dims) {
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(d, 1), &bytes)) {
      fail(Exit::model, "E_DIM_OVERFLOW", cat("dims ", to_string(dims), " overflow a 64-bit size"));
    }
  }
  return dims;
}

HostTensor decode(const T& t, std::shared_ptr<const void> owner) {
  const DType d = dtype_of(t.data_type()).value();
  const Dims dims = checked_dims(t, d);
  const int64_t count = numel(dims);
  if (t.has_segment()) fail(Exit::unsupported, "E_TENSOR_SEGMENTS", "the tensor is stored in segments");
  const int typed = typed_entries(t, d), all = all_typed_entries(t);
  if (t.has_raw_data() && !t.raw_data().empty() && all > 0) {
    fail(Exit::model, "E_TENSOR_FIELDS", "the tensor has both raw_data and a typed data field");
  }
  if (all != typed) {
    fail(Exit::model, "E_TENSOR_FIELDS", cat("a ", name_of(d), " tensor keeps its data in the wrong field"));
  }
  if (typed > 0) {
    if (typed != count) {
      fail(Exit::model, "E_TENSOR_SIZE",
           cat("dims ", to_string(dims), " need ", count, " elements, the tensor holds ", typed));
    }
    return decode_typed(t, d, dims);
  }
  const int64_t want = count * size_of(d), have = static_cast<int64_t>(t.raw_data().size());
  if (have != want) {
    fail(Exit::model, "E_TENSOR_SIZE",
         cat(name_of(d), " ", to_string(dims), " needs ", want, " bytes, the tensor holds ", have));
  }
  if (have == 0) return HostTensor::empty(d, dims);
  const auto* bytes = reinterpret_cast<const uint8_t*>(t.raw_data().data());
  if (d == DType::boolean && std::any_of(bytes, bytes + have, [](uint8_t b) { return b > 1; })) {
    HostTensor out = HostTensor::empty(d, dims);
    for (int64_t i = 0; i < have; ++i) static_cast<uint8_t*>(out.mutable_data())[i] = bytes[i] != 0;
    return out;
  }
  return HostTensor(d, dims, std::move(owner), bytes);
}

void store(const HostTensor& v, T& t) {
  check(v || v.numel() == 0, "a released parameter has no value");
  if (all_typed_entries(t) == 0) {
    t.set_raw_data(v.data(), static_cast<size_t>(v.bytes()));
    return;
  }
  const int n = static_cast<int>(v.numel());
  switch (v.dtype()) {
    case DType::f32:
      for (int i = 0; i < n; ++i) t.set_float_data(i, v.as<float>()[i]);
      return;
    case DType::f64:
      for (int i = 0; i < n; ++i) t.set_double_data(i, v.as<double>()[i]);
      return;
    case DType::f16:
    case DType::bf16:
      for (int i = 0; i < n; ++i) t.set_int32_data(i, static_cast<const uint16_t*>(v.data())[i]);
      return;
    default:
      bug("only floating tensors are written back");
  }
}

onnx::TensorProto encode(const HostTensor& v, const std::string& name) {
  T t;
  t.set_name(name);
  t.set_data_type(onnx_type_of(v.dtype()));
  for (const int64_t d : v.dims()) t.add_dims(d);
  t.set_raw_data(v.data(), static_cast<size_t>(v.bytes()));
  return t;
}

}  // namespace amp
