# Fuzz targets (README.md). Builds by clang with AddressSanitizer make them for libFuzzer and run them for a while, CI
# those labeled guard. All other builds run each target once over its corpus, by run_inputs.
set(ONNX_AMP_FUZZ_SECONDS 60 CACHE STRING "how long ctest runs each fuzz target")
set(fuzz_sources ${CMAKE_CURRENT_LIST_DIR}/run_inputs.cc ${CMAKE_CURRENT_LIST_DIR}/memory_folder.cc
                 ${CMAKE_CURRENT_LIST_DIR}/child_coverage.cc)
set(with_libfuzzer FALSE)
if(ONNX_AMP_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(with_libfuzzer TRUE)
endif()

# fuzz_target(NAME MODULES ... [SOURCES ... LIBRARIES ...] [CORPUS ...] [LABELS ...]): fuzz_NAME.cc, linked with these
# modules and with single sources of others, which saves CI the time to compile whole modules with sanitizers. CORPUS:
# files and folders of seeds beside corpus/NAME.
function(fuzz_target name)
  cmake_parse_arguments(PARSE_ARGV 1 F "" "" "MODULES;SOURCES;LIBRARIES;CORPUS;LABELS")
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/fuzz)
  set(corpus)
  if(EXISTS ${folder}/corpus/${name})
    set(corpus ${folder}/corpus/${name})
  endif()
  foreach(path ${F_CORPUS})
    list(APPEND corpus ${CMAKE_SOURCE_DIR}/${path})
  endforeach()
  set(fuzz_sources ${fuzz_sources} ${folder}/fuzz_${name}.cc PARENT_SCOPE)
  if(NOT with_libfuzzer)
    set_source_files_properties(${folder}/fuzz_${name}.cc PROPERTIES
                                COMPILE_DEFINITIONS LLVMFuzzerTestOneInput=fuzz_${name})
    add_test(NAME inputs_${name} COMMAND run_inputs ${name} ${corpus})
    set_tests_properties(inputs_${name} PROPERTIES TIMEOUT 300 ENVIRONMENT OMP_NUM_THREADS=1)
    return()
  endif()
  set(objects)
  foreach(m ${F_MODULES})
    list(APPEND objects $<TARGET_OBJECTS:${m}>)
  endforeach()
  list(TRANSFORM F_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/)
  add_executable(fuzz_${name} EXCLUDE_FROM_ALL ${folder}/fuzz_${name}.cc ${folder}/memory_folder.cc
                 ${folder}/child_coverage.cc ${F_SOURCES} ${objects})
  target_include_directories(fuzz_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(fuzz_${name} PRIVATE ${F_MODULES} ${F_LIBRARIES})
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  add_test(NAME fuzz_${name} COMMAND ${folder}/run.sh $<TARGET_FILE:fuzz_${name}> ${ONNX_AMP_FUZZ_SECONDS} ${corpus})
  set_tests_properties(fuzz_${name} PROPERTIES LABELS "sanitize;${F_LABELS}" TIMEOUT 600 ENVIRONMENT OMP_NUM_THREADS=1)
  add_dependencies(tests_sanitize fuzz_${name})
  if(guard IN_LIST F_LABELS)
    add_dependencies(tests_guard fuzz_${name})
  endif()
endfunction()

set(up_to_ops base graph backend ops)
fuzz_target(onnx MODULES base graph importer CORPUS tests/data/importer LABELS guard)
fuzz_target(shapes MODULES ${up_to_ops} importer CORPUS tests/fuzz/corpus/onnx tests/data/importer)
fuzz_target(external_data MODULES base graph importer LABELS guard
            CORPUS tests/data/importer/store_external_hand17/model.onnx)
fuzz_target(onnx_adapters MODULES base graph importer CORPUS tests/data/importer/adapters/ours.onnx_adapter
            tests/data/importer/adapters/by_onnxruntime.onnx_adapter LABELS guard)
fuzz_target(tensors MODULES base CORPUS tests/data/base LABELS guard)
fuzz_target(tables MODULES base data LABELS guard)
fuzz_target(questions MODULES base data LABELS guard
            CORPUS tests/data/data/questions.json tests/data/data/tagged.conll)
fuzz_target(images MODULES base data CORPUS tests/data/data/images LABELS guard)
fuzz_target(tokenizers MODULES base data LABELS guard)
fuzz_target(chat_templates MODULES base data LABELS guard)
fuzz_target(op_lists MODULES base graph precision CORPUS precision/presets LABELS guard)
fuzz_target(manifests MODULES base SOURCES trainer/loop/manifest.cc LABELS guard)
fuzz_target(checkpoints MODULES ${up_to_ops} precision data trainer)
fuzz_target(yaml MODULES base SOURCES tools/cli/yaml.cc LIBRARIES yaml-cpp LABELS guard)
fuzz_target(config MODULES ${MODULES})
fuzz_target(command_line MODULES ${MODULES})
fuzz_target(frames MODULES base LABELS guard
            SOURCES trainer/comm/frames.cc trainer/comm/connections.cc trainer/comm/sockets.cc
                    trainer/comm/handshake.cc trainer/comm/pending_connections.cc trainer/comm/communicator.cc)
fuzz_target(run_folders MODULES ${MODULES})
fuzz_target(export_records MODULES ${MODULES})

if(NOT with_libfuzzer)
  add_executable(run_inputs ${fuzz_sources} ${MODULE_OBJECTS})
  target_include_directories(run_inputs PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(run_inputs PRIVATE ${MODULES})
  optimize(test run_inputs)
  add_dependencies(tests_quick run_inputs)
endif()
