# Sets the optimization level of each target. All targets of a level share precompiled standard headers.
#   hot    kernels
#   warm   code that runs for each row or for each new batch shape
#   cold   all other code; compiling it takes longer than running it
#   test   tests; optimized like cold
# Files of warm and cold modules, and of folders of ops without kernels, are compiled several at a time (unity builds),
# which takes a third of the time. So file-local names must be unique in a module: name a registration after its file.
# -DONNX_AMP_UNITY=OFF compiles files separately. Sources must still include every header that they use, because the
# test `headers` and builds with clang have no precompiled headers.
set(hot_options $<$<CONFIG:Release>:-O3>)
set(warm_options $<$<CONFIG:Sanitize>:-O1>)
set(cold_options $<$<CONFIG:Release>:-O1> $<$<CONFIG:Release>:-finline-small-functions> $<$<CONFIG:Sanitize>:-O0>)
set(standard_headers <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <fstream> <functional> <limits> <map> <memory> <numeric>
    <optional> <set> <span> <sstream> <string> <string_view> <tuple> <type_traits> <unordered_map> <utility> <variant> <vector>)

# -ffp-contract=off makes code outside of kernels compute the same bits on all architectures. Without it the compiler
# would use fused multiply-adds on architectures where every CPU has them, which is not so for x86-64.
if(NOT ISA_FOLDER STREQUAL x86)
  list(APPEND warm_options -ffp-contract=off)
  list(APPEND cold_options -ffp-contract=off)
endif()

set(test_options ${cold_options})
set(hot_headers ${standard_headers})
set(warm_headers ${standard_headers} <nlohmann/json.hpp>)
set(cold_headers ${warm_headers})
set(test_headers ${cold_headers} <catch2/catch_test_macros.hpp>)

option(ONNX_AMP_UNITY "compile several files of a module at a time" ON)

# compile_together(TARGET [REGEX]): makes unity builds of the target's files whose paths match REGEX, or of all its
# files.
function(compile_together target)
  if(NOT ONNX_AMP_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  if(ARGN)
    get_target_property(alone ${target} SOURCES)
    list(FILTER alone EXCLUDE REGEX ${ARGN})
    set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# optimize(LEVEL TARGET...): sets the level of targets. The first target of a level compiles the level's precompiled
# headers.
function(optimize level)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE ${${level}_options})
    if(level MATCHES "warm|cold" AND NOT target STREQUAL cuda_emulated)  # the emulator's files are kernels
      compile_together(${target})
    endif()
    if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      continue()
    endif()
    get_property(owner GLOBAL PROPERTY precompiled_${level})
    if(owner)
      target_precompile_headers(${target} REUSE_FROM ${owner})
    else()
      target_precompile_headers(${target} PRIVATE ${${level}_headers})
      set_property(GLOBAL PROPERTY precompiled_${level} ${target})
    endif()
  endforeach()
endfunction()
