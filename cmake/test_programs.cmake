# Tests find only the programs that tests/programs.txt lists: a folder of links to them is their whole PATH.
set(test_programs ${CMAKE_BINARY_DIR}/test_programs)
file(REMOVE_RECURSE ${test_programs})
file(MAKE_DIRECTORY ${test_programs})
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/programs.txt)
file(STRINGS ${CMAKE_SOURCE_DIR}/tests/programs.txt rows REGEX "^[^#]")
foreach(row ${rows})
  string(REGEX MATCH "^[^ ]+" name ${row})
  set(found NOTFOUND)
  if(name STREQUAL python3 AND Python3_EXECUTABLE)
    # The interpreter itself: a version manager's python3 on the PATH is a script that calls further programs.
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
# Left out: tests of optional programs and of compilers, which call further programs.
list(REMOVE_ITEM all_tests browser headers mpi_drill sass tidy)
set_property(TEST ${all_tests} APPEND PROPERTY ENVIRONMENT_MODIFICATION PATH=set:${test_programs})
