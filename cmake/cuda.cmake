# Compiles the CUDA backend twice: with nvcc into the plugin libonnx_amp_cuda.so, if there is a CUDA toolkit, and as
# plain C++ for the tests' emulator. The backend's files are in backend/cuda, ops/cuda and trainer/cuda. Operator files
# with elementwise functors are compiled for it too, with the macro AMP_CUDA_UNIT.
set(ONNX_AMP_CUDA AUTO CACHE STRING "build the CUDA plugin: AUTO (where nvcc is), ON, OFF")
set(ONNX_AMP_CUDA_ARCHITECTURES 90 CACHE STRING "e.g. 80;90;100")
option(ONNX_AMP_CUDA_FAST_COMPILE "compile the plugin in half the time, to slow code (nvcc 12.8 and later)" OFF)

file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/backend/cuda/*.cu ${PROJECT_SOURCE_DIR}/ops/cuda/*.cu ${PROJECT_SOURCE_DIR}/trainer/cuda/*.cu)
file(GLOB operator_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ops/*.cc)
foreach(f ${operator_files})
  file(STRINGS ${f} elementwise REGEX "^const RegisterElementwise<")
  if(elementwise)
    cmake_path(GET f STEM name)
    file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/cuda/elementwise_${name}.cu CONTENT "#include \"ops/${name}.cc\"\n")
    list(APPEND cuda_sources ${PROJECT_BINARY_DIR}/cuda/elementwise_${name}.cu)
  endif()
endforeach()

# nvcc compiles .cu files. For the emulator, g++ compiles a generated .cc file that includes the .cu file.
set(emulated_sources)
foreach(f ${cuda_sources})
  cmake_path(GET f STEM name)
  cmake_path(GET f PARENT_PATH folder)
  cmake_path(GET folder PARENT_PATH module)
  cmake_path(GET module STEM module)
  cmake_path(RELATIVE_PATH f BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE relative)
  set(twin ${PROJECT_BINARY_DIR}/emulated/${module}_${name}.cc)
  file(GENERATE OUTPUT ${twin} CONTENT "#include \"${relative}\"\n")
  list(APPEND emulated_sources ${twin})
endforeach()

# The source text of the functors. Kernels that are generated at run time contain it.
set(common_texts backend/cuda/generated_prelude.cuh backend/cuda/thread.cuh backend/cuda/ref.cuh backend/cuda/raw.cuh backend/cuda/columns.cuh backend/cuda/fused_elements.cuh backend/functor.h base/math.h base/normal.h base/philox.h ops/dropout.h)
set(operator_texts)
foreach(f ${operator_files})
  file(STRINGS ${f} marked REGEX "^// <functors>")
  if(marked)
    cmake_path(RELATIVE_PATH f BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    list(APPEND operator_texts ${f})
  endif()
endforeach()
list(JOIN common_texts "|" common_texts_arg)
list(JOIN operator_texts "|" operator_texts_arg)
set(functor_code ${PROJECT_BINARY_DIR}/generated/ops/cuda/functor_code.h)
set(functor_texts ${PROJECT_BINARY_DIR}/generated/functor_texts.cc)
set(text_files ${common_texts} ${operator_texts} base/dtype.h cmake/functors.cmake)
list(TRANSFORM text_files PREPEND ${PROJECT_SOURCE_DIR}/)
add_custom_command(OUTPUT ${functor_texts} ${functor_code}
  COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DOUT_CC=${functor_texts} -DOUT_H=${functor_code} "-DCOMMON=${common_texts_arg}"
          "-DOPERATORS=${operator_texts_arg}" -P ${PROJECT_SOURCE_DIR}/cmake/functors.cmake
  DEPENDS ${text_files} VERBATIM)
set(cuda_host_sources backend/cuda/nccl.cc ops/cuda/fused_source.cc ${functor_texts} ${functor_code})  # compiled for the host: no device code
add_library(cuda_emulated OBJECT EXCLUDE_FROM_ALL ${emulated_sources} ${cuda_host_sources} tests/emulator/emulator.cc tests/emulator/emulated_device.cc tests/emulator/dry_device.cc)
target_include_directories(cuda_emulated PRIVATE ${PROJECT_BINARY_DIR}/generated)
# The emulator's fibers change stacks by longjmp, which _FORTIFY_SOURCE refuses.
set_source_files_properties(tests/emulator/emulator.cc PROPERTIES COMPILE_OPTIONS -U_FORTIFY_SOURCE SKIP_PRECOMPILE_HEADERS ON)
target_compile_definitions(cuda_emulated PRIVATE AMP_CUDA_UNIT)
target_compile_options(cuda_emulated PRIVATE -Wno-unused -Wno-missing-field-initializers)
optimize(cold cuda_emulated)
target_link_libraries(cuda_emulated PUBLIC ops)

set(ONNX_AMP_HAS_CUDA OFF CACHE INTERNAL "")
if(NOT ONNX_AMP_CUDA STREQUAL OFF)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(ONNX_AMP_NVCC nvcc HINTS /usr/local/cuda/bin)
    if(ONNX_AMP_NVCC)
      set(CMAKE_CUDA_COMPILER ${ONNX_AMP_NVCC})
    endif()
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES ${ONNX_AMP_CUDA_ARCHITECTURES})
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    # CUDA 13 has no libnvToolsExt. CMake 3.25.1 (Debian 12) sets a property of its target without checking that the
    # target exists, so an empty target is defined.
    if(NOT TARGET CUDA::nvToolsExt)
      add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
    endif()
    find_package(CUDAToolkit)
    find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
  endif()
  if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND AND CUDNN_LIBRARY)
    set(ONNX_AMP_HAS_CUDA ON CACHE INTERNAL "")
  elseif(ONNX_AMP_CUDA STREQUAL ON)
    message(FATAL_ERROR "ONNX_AMP_CUDA=ON, but nvcc, the CUDA toolkit or cuDNN was not found")
  endif()
endif()

if(ONNX_AMP_HAS_CUDA)
  enable_language(CUDA)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # CMake 3.25 does not set this option for nvcc 13
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  if(CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
  # -O1 affects only host code, which prepares and launches kernels. Device code is always optimized.
  set(CMAKE_CUDA_FLAGS_RELEASE "-DNDEBUG -Xcompiler=-O1")
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
    string(APPEND CMAKE_CUDA_FLAGS " --compress-mode=size")  # reduces the plugin to a third of its size
    if(ONNX_AMP_CUDA_FAST_COMPILE)
      string(APPEND CMAKE_CUDA_FLAGS " --Ofast-compile=max")
    endif()
  endif()
  message(STATUS "CUDA plugin: ${CMAKE_CUDA_COMPILER}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
  file(GLOB cuda_runtime CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/backend/cuda/runtime/*.cc)
  add_library(cuda_plugin MODULE ${cuda_sources} ${cuda_runtime} ${cuda_host_sources}
              $<TARGET_OBJECTS:base> $<TARGET_OBJECTS:graph> $<TARGET_OBJECTS:backend>)
  set_target_properties(cuda_plugin PROPERTIES OUTPUT_NAME onnx_amp_cuda LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
                        CUDA_RUNTIME_LIBRARY Shared CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden BUILD_RPATH ${CUDAToolkit_LIBRARY_DIR})
  target_include_directories(cuda_plugin PRIVATE ${PROJECT_BINARY_DIR}/generated)
  # The result of a functor must not depend on the surrounding code. So products and sums are not contracted, in
  # these files as in generated kernels; base/math.h has functions for fused multiply-adds where they are wanted.
  set(elementwise_units ${cuda_sources})
  list(FILTER elementwise_units INCLUDE REGEX "/elementwise_[a-z_]*\\.cu$|/ops/cuda/(fused|cast|dropout|reduce)\\.cu$")
  set_source_files_properties(${elementwise_units} PROPERTIES COMPILE_OPTIONS "--fmad=false")
  target_compile_definitions(cuda_plugin PRIVATE AMP_CUDA_UNIT)
  target_compile_options(cuda_plugin PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda --expt-relaxed-constexpr -Werror=all-warnings
                         --diag-suppress=186,177 -Xcompiler=-fPIC,-Wno-unused,-Wno-missing-field-initializers>)
  include(cmake/cudnn_frontend.cmake)
  if(CUDNN_FRONTEND_INCLUDE)
    message(STATUS "CUDA plugin: attention and convolutions by cuDNN, headers in ${CUDNN_FRONTEND_INCLUDE}")
    set(cudnn_frontend_options "-O1;-isystem;${CUDNN_FRONTEND_INCLUDE}")
    set(cudnn_frontend_definitions "ONNX_AMP_CUDNN_FRONTEND;CUDNN_FRONTEND_SKIP_JSON_LIB")
    set(cudnn_sources cudnn cudnn_attention cudnn_attention_graph cudnn_convolution cudnn_convolution_graph)
    list(TRANSFORM cudnn_sources REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/backend/cuda/runtime/\\1.cc")
    set_source_files_properties(${cudnn_sources} PROPERTIES COMPILE_OPTIONS "${cudnn_frontend_options}" COMPILE_DEFINITIONS "${cudnn_frontend_definitions}")
  else()
    message(STATUS "CUDA plugin: without attention and convolutions by cuDNN, its headers cannot be had; the built-in kernels are there")
  endif()
  # cuDNN is not linked: backend/cuda/runtime/cudnn_loader.cc loads it when it is first called.
  target_link_libraries(cuda_plugin PRIVATE CUDA::cudart CUDA::cublasLt ${CMAKE_DL_LIBS} base graph backend)
  # The program may export the same symbols as the plugin. The plugin must use its own.
  target_link_options(cuda_plugin PRIVATE -Wl,--no-undefined -Wl,-Bsymbolic)
endif()
