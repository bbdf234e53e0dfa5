// How far two versions of a result are apart, found on the device.
#pragma once

#include "backend/cuda/device.h"

namespace amp::cuda {

struct Agreement {
  float difference = 0, largest = 0;  // of any two elements; element of the first. NaN where one is among them
  bool proves_something() const { return largest > 0 && largest - largest == 0; }  // zeros and infinities do not
  bool within(double tolerance) const {
    return difference - difference == 0 && difference <= tolerance * static_cast<double>(largest);
  }
};

// Waits for the device. Tensors of any floating types, as many elements each.
Agreement compare_results(CudaDevice& d, const Tensor& first, const Tensor& second);

}  // namespace amp::cuda
