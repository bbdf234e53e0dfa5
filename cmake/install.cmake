# Installation: program, shared library with the C interface, headers, CMake package, pkg-config file, manual page, shell
# completions and licenses. Plugins are installed to the library folder, where base/plugin_folders.cc finds them.
set(CMAKE_INSTALL_LIBDIR lib CACHE STRING "folder of libraries below the prefix")
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The program prints the manual page and the completions itself, so that they list the flags that its parser accepts.
set(program_texts)
function(program_text file)
  add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/share/${file} COMMAND onnx-amp-finetune ${ARGN} > ${PROJECT_BINARY_DIR}/share/${file}
                     DEPENDS onnx-amp-finetune VERBATIM)
  set(program_texts ${program_texts} ${PROJECT_BINARY_DIR}/share/${file} PARENT_SCOPE)
endfunction()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share)
program_text(onnx-amp-finetune.bash --print_completions bash)
program_text(_onnx-amp-finetune --print_completions zsh)
program_text(onnx-amp-finetune.fish --print_completions fish)
program_text(onnx-amp-finetune.1 --print_man)
add_custom_target(program_texts ALL DEPENDS ${program_texts})
set(share ${PROJECT_BINARY_DIR}/share)
install(FILES ${share}/onnx-amp-finetune.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME onnx-amp-finetune)
install(FILES ${share}/_onnx-amp-finetune DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${share}/onnx-amp-finetune.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${share}/onnx-amp-finetune.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

install(TARGETS onnx-amp-finetune)
install(TARGETS onnx_amp_shared EXPORT onnx_amp)
foreach(plugin cuda_plugin onnx_amp_mpi)
  if(TARGET ${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/capi/onnx_amp.h ${PROJECT_SOURCE_DIR}/capi/onnx_amp.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/onnx_amp)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/onnx_amp)
install(EXPORT onnx_amp NAMESPACE onnx_amp:: FILE onnx_ampConfig.cmake DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/onnx_ampConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/onnx_ampConfigVersion.cmake DESTINATION ${package})
configure_file(${PROJECT_SOURCE_DIR}/cmake/onnx_amp.pc.in ${PROJECT_BINARY_DIR}/onnx_amp.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/onnx_amp.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The program's license, and the licenses of libraries whose code is linked in. Other libraries are shared ones of the
# system.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${JINJA_SOURCES}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR}/licenses RENAME llama.cpp-jinja.txt)
install(FILES ${PROJECT_SOURCE_DIR}/third_party.toml DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/LICENSES/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/licenses OPTIONAL)
