# The plugin libonnx_amp_mpi.so, for ranks that mpirun or srun starts (trainer/comm/mpi.h). It is built if MPI's
# headers are installed.
set(ONNX_AMP_MPI AUTO CACHE STRING "build the MPI plugin: AUTO (where MPI is), ON, OFF")
set(ONNX_AMP_HAS_MPI OFF CACHE INTERNAL "")

# Sets the variable named by `out` to true if every include folder that MPI's compiler wrapper names exists. Debian's
# openmpi-bin has the wrapper but not the headers of libopenmpi-dev; find_package(MPI) then fails even if MPI is
# optional.
function(mpi_has_headers out)
  set(${out} TRUE PARENT_SCOPE)
  find_program(ONNX_AMP_MPICC NAMES mpicc)
  if(NOT ONNX_AMP_MPICC)
    return()  # without a wrapper, FindMPI searches elsewhere
  endif()
  execute_process(COMMAND ${ONNX_AMP_MPICC} -show OUTPUT_VARIABLE command ERROR_QUIET)
  string(REGEX MATCHALL "-I[^ \n]+" folders "${command}")
  foreach(folder ${folders})
    string(SUBSTRING ${folder} 2 -1 folder)
    if(NOT IS_DIRECTORY ${folder})
      set(${out} FALSE PARENT_SCOPE)
      message(STATUS "MPI without headers: ${folder} does not exist (Debian: libopenmpi-dev)")
    endif()
  endforeach()
endfunction()

if(NOT ONNX_AMP_MPI STREQUAL OFF AND NOT ONNX_AMP_SANITIZE)
  mpi_has_headers(headers)
  if(headers)
    find_package(MPI COMPONENTS C QUIET)  # the plugin uses only the C interface
  endif()
  if(MPI_C_FOUND)
    set(ONNX_AMP_HAS_MPI ON CACHE INTERNAL "")
    add_library(onnx_amp_mpi MODULE trainer/mpi/plugin.cc)
    target_compile_definitions(onnx_amp_mpi PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
    target_link_libraries(onnx_amp_mpi PRIVATE MPI::MPI_C)
    set_target_properties(onnx_amp_mpi PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
    add_dependencies(onnx-amp-finetune onnx_amp_mpi)
  elseif(ONNX_AMP_MPI STREQUAL ON)
    message(FATAL_ERROR "ONNX_AMP_MPI=ON, but MPI was not found (libopenmpi-dev)")
  endif()
endif()
