// Converts element types in attributes, which are TensorProto.DataType of the ONNX standard.
#pragma once

#include <cstdint>
#include <optional>

#include "base/dtype.h"

namespace amp {

// Returns the DType of `code`. Returns nullopt if there is none: strings, complex numbers, float8, integers of fewer
// than 8 bits.
inline std::optional<DType> dtype_of_onnx(int64_t code) {
  switch (code) {
    case 1:
      return DType::f32;
    case 2:
      return DType::u8;
    case 3:
      return DType::i8;
    case 4:
      return DType::u16;
    case 5:
      return DType::i16;
    case 6:
      return DType::i32;
    case 7:
      return DType::i64;
    case 9:
      return DType::boolean;
    case 10:
      return DType::f16;
    case 11:
      return DType::f64;
    case 12:
      return DType::u32;
    case 13:
      return DType::u64;
    case 16:
      return DType::bf16;
    default:
      return {};
  }
}

}  // namespace amp
