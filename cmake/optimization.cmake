# How far targets are optimized, and the standard headers that all of a level share, parsed once:
#   hot    kernels
#   warm   what a row, or a new shape of batch, waits for
#   cold   the rest: compiling it takes longer than running it
#   test   tests, as cold
# Files of warm and cold modules, and of folders of ops without kernels, are compiled several at a time (unity builds), which takes a
# third of the time. File-local names are thus the module's: a registration is named after its file.
# -DONNX_AMP_UNITY=OFF: each alone.
# Sources include what they use all the same (the test headers, and clang's builds, which have no precompiled headers).
set(hot_options $<$<CONFIG:Release>:-O3>)
set(warm_options $<$<CONFIG:Sanitize>:-O1>)
set(cold_options $<$<CONFIG:Release>:-O1> $<$<CONFIG:Release>:-finline-small-functions> $<$<CONFIG:Sanitize>:-O0>)
set(standard_headers <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <fstream> <functional> <limits> <map> <memory> <numeric>
    <optional> <set> <span> <sstream> <string> <string_view> <tuple> <type_traits> <unordered_map> <utility> <variant> <vector>)

# Code outside of kernels computes the same bits on all architectures: where every CPU has fused multiply-adds, the compiler
# would use them. x86-64's baseline has none.
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

# compile_together(TARGET [REGEX]): the files whose paths match, else all; by g++, which has the headers precompiled.
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

# optimize(LEVEL TARGET...): the first target of a level that is named anywhere compiles the level's headers.
function(optimize level)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE ${${level}_options})
    if(level MATCHES "warm|cold" AND NOT target STREQUAL cuda_emulated)  # its files are kernels
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
