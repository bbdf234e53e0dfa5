# -DONNX_AMP_SYSROOT=FOLDER builds binaries for other machines (packaging/release.sh). They are linked with the glibc in
# FOLDER, so that they run on systems with this version or a later one. Other libraries are linked statically, except
# libgomp, which is installed next to the binaries. Sources and headers are the same as without this option. Include
# this file before the first find_package, and call portable_libraries() after the last.
set(ONNX_AMP_SYSROOT "" CACHE PATH "folder with the oldest glibc that the binaries are to run on; empty: this machine's")
if(ONNX_AMP_SYSROOT)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  set(Protobuf_USE_STATIC_LIBS ON)
  set(OPENSSL_USE_STATIC_LIBS ON)
  # A plain object file is used, because every binary needs this code and the installed library must not export it.
  set(glibc_compat ${PROJECT_BINARY_DIR}/glibc_compat.o)
  execute_process(COMMAND ${CMAKE_C_COMPILER} -O2 -fPIC -Wall -Wextra -Werror -c ${PROJECT_SOURCE_DIR}/packaging/glibc_compat.c
                  -o ${glibc_compat} COMMAND_ERROR_IS_FATAL ANY)
  # libgomp's static archive cannot be linked into a shared library. So the shared libgomp of the old system is
  # installed, next to the library.
  file(GLOB libgomp ${ONNX_AMP_SYSROOT}/usr/lib/*/libgomp.so.1)
  file(REAL_PATH ${libgomp} libgomp_file)
  install(FILES ${libgomp_file} DESTINATION lib RENAME libgomp.so.1)
  set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
  set(CMAKE_INSTALL_RPATH "$ORIGIN;$ORIGIN/../lib")
endif()

# portable_libraries(): adds libraries that the static libraries need and that CMake's find modules do not report.
function(portable_libraries)
  if(NOT ONNX_AMP_SYSROOT)
    return()
  endif()
  set(needed)
  foreach(name webp zstd lzma jpeg deflate z yaml-cpp)
    set(archive ARCHIVE_${name})
    find_library(${archive} ${name} REQUIRED)
    list(APPEND needed ${${archive}})
  endforeach()
  list(REMOVE_ITEM needed ${ARCHIVE_yaml-cpp})
  set_property(TARGET TIFF::TIFF APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${needed})
  set_property(TARGET PkgConfig::LIBZIP APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${ARCHIVE_z})
  # The headers are those of Debian's packages in the same versions, so that the same code is compiled with and without
  # this option.
  set_target_properties(PkgConfig::LIBZIP PkgConfig::MICROHTTPD TIFF::TIFF PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "")
  set_target_properties(yaml-cpp PROPERTIES IMPORTED_LOCATION_NONE ${ARCHIVE_yaml-cpp}
                        IMPORTED_LOCATION ${ARCHIVE_yaml-cpp} IMPORTED_LOCATION_RELEASE ${ARCHIVE_yaml-cpp})
  # libgcc is linked dynamically, because its static archive calls a function that glibc has only since 2.35.
  # -B precedes Debian's own folder, which its g++ would search before the sysroot.
  set(system_folder ${ONNX_AMP_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
  add_link_options(${glibc_compat} --sysroot=${ONNX_AMP_SYSROOT} -B${system_folder} -L${system_folder}
                   -L${ONNX_AMP_SYSROOT}/lib/${CMAKE_LIBRARY_ARCHITECTURE} -static-libstdc++ -Wl,--exclude-libs,ALL -Wl,--gc-sections)
  set_target_properties(OpenMP::OpenMP_CXX PROPERTIES INTERFACE_LINK_LIBRARIES "${libgomp};pthread;dl;rt;m")
endfunction()
