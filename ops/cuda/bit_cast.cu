// The kernel of BitCast (ops/bit_cast.cc).
#include <cstring>

#include "backend/cuda/launch.cuh"
#include "backend/cuda/ref.cuh"

namespace amp::cuda {
namespace {

// Reinterprets the bits of elements. If x is stored in 16 bits, its elements are first converted to the declared type,
// of which they are rounded numbers. If y is stored in 16 bits, the results are rounded to 16 bits.
struct BitCast {
  Ref x, y;
  int size;  // bytes of an element in the declared type
  bool low_x, low_y;

  DEV void operator()(int64_t i) const {
    uint64_t bits = 0;
    if (low_x) {
      if (size == 8)
        bits = bits_of(load<double>(x, i));
      else
        bits = bits_of(load<float>(x, i));
    } else {
      const Ref raw = as(x, size);
      bits = load<uint64_t>(raw, i);
    }
    if (low_y) {
      if (size == 8)
        store(y, i, value_of<double>(bits));
      else
        store(y, i, value_of<float>(bits));
    } else if (y.type == DType::boolean) {
      store(y, i, bits);
    } else {
      store(as(y, size), i, bits);
    }
  }

 private:
  DEV static Ref as(Ref r, int size) {
    r.type = size == 1 ? DType::u8 : size == 2 ? DType::u16 : size == 4 ? DType::u32 : DType::u64;
    return r;
  }
  template <class T>
  DEV static uint64_t bits_of(T v) {
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    return bits;
  }
  template <class T>
  DEV static T value_of(uint64_t bits) {
    T v;
    memcpy(&v, &bits, sizeof v);
    return v;
  }
};

Kernel bit_cast(const KernelArgs& a) {
  const Tensor &x = a.in[0], &y = a.out[0];
  const BitCast body{x, y, static_cast<int>(is_low(x.dtype) ? a.attrs().i("bytes", 4) : size_of(x.dtype)),
                     is_low(x.dtype), is_low(y.dtype)};
  return [&d = device_of(a), body, n = x.numel()] { for_each(d, n, body); };
}

const RegisterKernel kernel{DeviceKind::cuda, "BitCast", bit_cast};

}  // namespace
}  // namespace amp::cuda
