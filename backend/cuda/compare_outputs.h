// Measures on the device how far two versions of a result differ.
#pragma once

#include "backend/cuda/device.h"

namespace amp::cuda {

struct OutputDifference {
  // difference: the largest difference of two corresponding elements; NaN if one of them is NaN. largest: the largest
  // magnitude in the first tensor; NaN if it has a NaN.
  float difference = 0, largest = 0;
  // Returns false if all elements of the first tensor are zero or one is not finite.
  bool validates() const { return largest > 0 && largest - largest == 0; }
  bool within(double tolerance) const {
    return difference - difference == 0 && difference <= tolerance * static_cast<double>(largest);
  }
};

// Returns the relative tolerance of a library's product or convolution. It allows for another order of summation, TF32
// where permitted, or a 16-bit result. A wrong result differs by about the largest element itself.
inline double library_tolerance(DType t) { return t == DType::f32 ? 4e-3 : t == DType::f16 ? 1e-2 : 4e-2; }

// Compares two tensors with the same number of elements and any floating types. Waits for the device.
OutputDifference compare_outputs(CudaDevice& d, const Tensor& first, const Tensor& second);

}  // namespace amp::cuda
