# Protections that the compiler and the linker add to the release build. The program reads untrusted files (models,
# checkpoints, tokenizers, images). A memory error must end the program, and must not execute code from such a file.
# ONNX_AMP_HARDENING=OFF omits the protections, to measure their cost (docs/results.md). Sanitizer builds omit them too,
# because _FORTIFY_SOURCE hides calls from AddressSanitizer, whose checks are stronger.
include(CheckCXXCompilerFlag)
option(ONNX_AMP_HARDENING "stack protector, _FORTIFY_SOURCE, full RELRO, control-flow protection" ON)
if(ONNX_AMP_HARDENING AND NOT ONNX_AMP_SANITIZE)
  set(hardening_options)
  foreach(option -fstack-protector-strong -fstack-clash-protection -fcf-protection=full -mbranch-protection=standard)
    string(MAKE_C_IDENTIFIER "HAS${option}" has)
    check_cxx_compiler_flag(${option} ${has})
    if(${has})
      list(APPEND hardening_options ${option})
    endif()
  endforeach()
  # Level 3 also checks sizes that are known only at run time; older compilers treat it as level 2. -U comes first,
  # because compilers of Debian and Ubuntu may define another level by default.
  list(APPEND hardening_options $<$<CONFIG:Release>:-U_FORTIFY_SOURCE> $<$<CONFIG:Release>:-D_FORTIFY_SOURCE=3>)
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:${hardening_options}>")
  add_link_options("$<$<LINK_LANGUAGE:C,CXX>:-Wl,-z,relro,-z,now,-z,noexecstack>")
endif()
