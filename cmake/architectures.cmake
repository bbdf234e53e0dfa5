# The architectures that have kernels. A row has the names of the processor, the architecture's folder in base/isa/ and
# backend/cpu/isa/ (base/simd.h includes the header of that folder), and its levels in descending order without the
# highest, for tests with ONNX_AMP_MAX_ISA.
set(architectures "x86_64|AMD64 x86 v3 v2"
                  "aarch64|arm64 arm neon")
set(ISA_FOLDER)
foreach(row ${architectures})
  separate_arguments(row)
  list(POP_FRONT row processor folder)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(${processor})$")
    set(ISA_FOLDER ${folder})
    set(LOWER_ISA_LEVELS ${row})
  endif()
endforeach()
if(NOT ISA_FOLDER)
  message(FATAL_ERROR "no kernels for the processor ${CMAKE_SYSTEM_PROCESSOR} (base/isa, backend/cpu/isa)")
endif()

# Makes `char` signed on all architectures, as it is on x86-64.
add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:$<$<NOT:$<STREQUAL:${ISA_FOLDER},x86>>:-fsigned-char>>)

# this_architecture(VARIABLE): removes the files of other architectures from a list of files.
function(this_architecture list)
  set(kept ${${list}})
  list(FILTER kept EXCLUDE REGEX "/isa/[a-z0-9]+/")
  list(FILTER ${list} INCLUDE REGEX "/isa/${ISA_FOLDER}/")
  set(${list} ${kept} ${${list}} PARENT_SCOPE)
endfunction()
