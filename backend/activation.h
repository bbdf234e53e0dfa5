// Activation functions of recurrent layers (ONNX RNN, GRU, LSTM). Their derivatives are computed from the result y.
#pragma once

#include "base/math.h"
#include "base/simd.h"
#include "graph/attrs.h"

namespace amp {

struct Activation {
  enum Kind { sigmoid, tanh, relu, hard_sigmoid, leaky_relu, elu, softsign, affine, scaled_tanh };
  Kind kind = tanh;
  double alpha = 0, beta = 0;

  template <class T>
  AMP_INLINE HD inline T value(T x) const {
    const T p = static_cast<T>(alpha), q = static_cast<T>(beta);
    switch (kind) {
      case sigmoid:
        return math::sigmoid(x);
      case tanh:
        return math::tanh(x);
      case relu:
        return x < T(0) ? T(0) : x;
      case hard_sigmoid: {
        const T y = p * x + q;
        return y < T(0) ? T(0) : y > T(1) ? T(1) : y;
      }
      case leaky_relu:
        return x < T(0) ? p * x : x;
      case elu:
        return x < T(0) ? p * (math::exp(x) - T(1)) : x;
      case softsign:
        return x / (T(1) + (x < T(0) ? -x : x));
      case affine:
        return p * x + q;
      case scaled_tanh:
        return p * math::tanh(q * x);
    }
    return x;
  }
  // Returns the derivative dy/dx, computed from y.
  template <class T>
  AMP_INLINE HD inline T slope(T y) const {
    const T p = static_cast<T>(alpha), q = static_cast<T>(beta);
    switch (kind) {
      case sigmoid:
        return y * (T(1) - y);
      case tanh:
        return T(1) - y * y;
      case relu:
        return y > T(0) ? T(1) : T(0);
      case hard_sigmoid:
        return y > T(0) && y < T(1) ? p : T(0);
      case leaky_relu:
        return y < T(0) ? p : T(1);
      case elu:
        return y < T(0) ? y + p : T(1);
      case softsign: {
        const T s = T(1) - (y < T(0) ? -y : y);
        return s * s;
      }
      case affine:
        return p;
      case scaled_tanh:
        return p * q - q * y * y / p;
    }
    return T(1);
  }
};

inline Activation read_activation(const Attrs& a, size_t i) {
  return {static_cast<Activation::Kind>(a.ints("activation").at(i)), a.floats("alpha").at(i), a.floats("beta").at(i)};
}

}  // namespace amp
