// BitShift (ONNX 11), BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot (18). They apply to integers and have no
// gradient.
#include "ops/elementwise_op.h"

namespace amp {
namespace {

struct Integers {
  static constexpr bool integers = true, booleans = false;
};
template <class T>
constexpr bool kInteger = std::is_integral_v<T>;

// A shift to the right repeats the sign (ONNX 28). A shift by a negative number, or by the width of the type or more,
// leaves only copies of the bit that is shifted in.
struct BitShift : Functor<2, Integers> {
  explicit BitShift(const Attrs& a) : left(a.s("direction", "LEFT") == "LEFT") {}
  template <class T>
  HD T operator()(T x, T n) const {
    if constexpr (kInteger<T>) {
      const uint64_t k = static_cast<uint64_t>(n);
      if (k >= 8 * sizeof(T)) return !left && x < T(0) ? static_cast<T>(-1) : T(0);
      return left ? static_cast<T>(static_cast<uint64_t>(x) << k) : static_cast<T>(x >> k);
    } else {
      return x;
    }
  }
  bool left;
};
struct BitwiseAnd : Functor<2, Integers> {
  template <class T>
  HD T operator()(T a, T b) const {
    if constexpr (kInteger<T>)
      return static_cast<T>(a & b);
    else
      return a;
  }
};
struct BitwiseOr : Functor<2, Integers> {
  template <class T>
  HD T operator()(T a, T b) const {
    if constexpr (kInteger<T>)
      return static_cast<T>(a | b);
    else
      return a;
  }
};
struct BitwiseXor : Functor<2, Integers> {
  template <class T>
  HD T operator()(T a, T b) const {
    if constexpr (kInteger<T>)
      return static_cast<T>(a ^ b);
    else
      return a;
  }
};
struct BitwiseNot : Functor<1, Integers> {
  template <class T>
  HD T operator()(T a) const {
    if constexpr (kInteger<T>)
      return static_cast<T>(~a);
    else
      return a;
  }
};

// The functors do not support floating-point operands, so models that have them are rejected here.
void lower_bits(Lowering& l) {
  if (is_float(l.b.dtype(l.in(0)))) fail(Exit::model, "E_ATTR", cat(l.node.op, " of ", name_of(l.b.dtype(l.in(0)))));
  lower_same_name(l);
}

const RegisterElementwise<BitShift> bit_shift{"BitShift"};
const RegisterElementwise<BitwiseAnd> bitwise_and{"BitwiseAnd"};
const RegisterElementwise<BitwiseOr> bitwise_or{"BitwiseOr"};
const RegisterElementwise<BitwiseXor> bitwise_xor{"BitwiseXor"};
const RegisterElementwise<BitwiseNot> bitwise_not{"BitwiseNot"};

const RegisterOnnx onnx[] = {
    RegisterOnnx{{"BitShift", lower_bits, 11, {}}}, RegisterOnnx{{"BitwiseAnd", lower_bits, 18, {}}},
    RegisterOnnx{{"BitwiseOr", lower_bits, 18, {}}}, RegisterOnnx{{"BitwiseXor", lower_bits, 18, {}}},
    RegisterOnnx{{"BitwiseNot", lower_bits, 18, {}}}};

}  // namespace
}  // namespace amp
