// How far two versions of a result are apart, found on the device.
#pragma once

#include "backend/cuda/device.h"

namespace amp::cuda {

struct OutputDifference {
  float difference = 0, largest = 0;  // of any two elements; element of the first. NaN where one is among them
  bool validates() const { return largest > 0 && largest - largest == 0; }  // zeros and infinities do not
  bool within(double tolerance) const {
    return difference - difference == 0 && difference <= tolerance * static_cast<double>(largest);
  }
};

// Of a library's product or convolution: what two orders of summation, TF32 where it is allowed, or a 16-bit result may
// make of the largest element. Something wrong is off by about all of it.
inline double library_tolerance(DType t) { return t == DType::f32 ? 4e-3 : t == DType::f16 ? 1e-2 : 4e-2; }

// Waits for the device. Tensors of any floating types, as many elements each.
OutputDifference compare_outputs(CudaDevice& d, const Tensor& first, const Tensor& second);

}  // namespace amp::cuda
