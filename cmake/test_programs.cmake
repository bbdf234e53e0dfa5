# Sets the PATH of tests to one folder, with links to the programs that tests/programs.txt lists.
set(test_programs ${PROJECT_BINARY_DIR}/test_programs)
file(REMOVE_RECURSE ${test_programs})
file(MAKE_DIRECTORY ${test_programs})
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/programs.txt)
file(STRINGS ${PROJECT_SOURCE_DIR}/tests/programs.txt rows REGEX "^[^#]")
foreach(row ${rows})
  string(REGEX MATCH "^[^ ]+" name ${row})
  set(found NOTFOUND)
  if(name STREQUAL python3 AND Python3_EXECUTABLE)
    # The link is to the interpreter itself, because the python3 of a version manager is a script that calls other
    # programs.
    execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.executable)" OUTPUT_VARIABLE found
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
  else()
    find_program(found ${name} HINTS /usr/local/cuda/bin NO_CACHE)
  endif()
  if(found)
    file(CREATE_LINK ${found} ${test_programs}/${name} SYMBOLIC)
  endif()
endforeach()
get_property(all_tests DIRECTORY PROPERTY TESTS)
# Tests of optional programs and of compilers keep the normal PATH, because those programs call other programs.
list(REMOVE_ITEM all_tests browser headers mpi_drill sass tidy)
set_property(TEST ${all_tests} APPEND PROPERTY ENVIRONMENT_MODIFICATION PATH=set:${test_programs})
