# The CUDA backend, twice: by nvcc into the plugin libonnx_amp_cuda.so where there is a CUDA toolkit, and as plain C++ for the
# emulator that the tests run. Its files are backend/cuda, ops/cuda and trainer/cuda; operator files that hold elementwise
# functors are compiled once more for it (AMP_CUDA_UNIT).
set(ONNX_AMP_CUDA AUTO CACHE STRING "build the CUDA plugin: AUTO (where nvcc is), ON, OFF")
set(ONNX_AMP_CUDA_ARCHITECTURES 90 CACHE STRING "e.g. 80;90;100")

file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/backend/cuda/*.cu ${CMAKE_SOURCE_DIR}/ops/cuda/*.cu ${CMAKE_SOURCE_DIR}/trainer/cuda/*.cu)
file(GLOB operator_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/ops/*.cc)
foreach(f ${operator_files})
  file(STRINGS ${f} elementwise REGEX "^const RegisterElementwise<")
  if(elementwise)
    cmake_path(GET f STEM name)
    file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/cuda/elementwise_${name}.cu CONTENT "#include \"ops/${name}.cc\"\n")
    list(APPEND cuda_sources ${CMAKE_BINARY_DIR}/cuda/elementwise_${name}.cu)
  endif()
endforeach()

# nvcc knows .cu by itself; for the emulator each file gets a twin that g++ knows as C++.
set(emulated_sources)
foreach(f ${cuda_sources})
  cmake_path(GET f STEM name)
  cmake_path(GET f PARENT_PATH folder)
  cmake_path(GET folder PARENT_PATH room)
  cmake_path(GET room STEM room)
  cmake_path(RELATIVE_PATH f BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE relative)
  set(twin ${CMAKE_BINARY_DIR}/emulated/${room}_${name}.cc)
  file(GENERATE OUTPUT ${twin} CONTENT "#include \"${relative}\"\n")
  list(APPEND emulated_sources ${twin})
endforeach()
add_library(cuda_emulated OBJECT EXCLUDE_FROM_ALL ${emulated_sources} backend/cuda/emulator.cc backend/cuda/emulated_device.cc)
target_compile_definitions(cuda_emulated PRIVATE AMP_CUDA_UNIT)
target_compile_options(cuda_emulated PRIVATE -Wno-unused -Wno-missing-field-initializers -O1)
target_link_libraries(cuda_emulated PUBLIC ops)
