# The C interface: programs in C that link the shared library, and a project that uses an installation of it.
foreach(program train calls)
  add_executable(capi_${program} capi/${program}.c)
  set_target_properties(capi_${program} PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  target_compile_options(capi_${program} PRIVATE -Wall -Wextra -Werror -pedantic)
  target_link_libraries(capi_${program} PRIVATE onnx_amp_shared m)
  add_dependencies(tests_quick capi_${program})
endforeach()
set(zoo ${CMAKE_SOURCE_DIR}/tests/data/zoo)
function(capi_training name kind model)
  add_test(NAME capi_${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/capi/train.sh $<TARGET_FILE:capi_train> $<TARGET_FILE:onnx-amp-finetune>
           ${kind} ${zoo}/${model}/model.onnx ${CMAKE_CURRENT_BINARY_DIR}/capi/${name} ${ARGN})
endfunction()
capi_training(lenet lenet lenet_relu_dyn18)
capi_training(lenet_ema lenet lenet_relu_dyn18 "\"use_fp16\": true, \"ema_decay\": 0.9, \"export_weights\": \"ema\", \"export_precision\": \"fp16\"")
capi_training(bert bert bert_cls_eager_ts14 "\"use_bf16\": true, \"max_grad_norm\": 1, \"lora\": \"r=2,alpha=4,dropout=0.5\"")
capi_training(bert_schedule_free bert bert_cls_sdpa_dyn18 "\"optimizer\": \"schedule_free_adamw\", \"freeze\": [\"*embedding*\"]")
capi_training(minilm bert minilm_embed_ts14 "\"use_fp16\": true, \"head\": \"classification\", \"num_labels\": 2")
add_test(NAME capi_calls COMMAND sh -c "rm -rf \"$4\"; mkdir -p \"$4\"; exec \"$1\" \"$2\" \"$3\" \"$4\"" sh $<TARGET_FILE:capi_calls>
         ${zoo}/lenet_relu_dyn18/model.onnx ${zoo}/bert_cls_eager_ts14/model.onnx ${CMAKE_CURRENT_BINARY_DIR}/capi/calls)
if(Python3_FOUND AND NOT ONNX_AMP_SANITIZE)
  add_test(NAME capi_abi COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/capi/abi_test.py --library $<TARGET_FILE:onnx_amp_shared>
           --cc ${CMAKE_C_COMPILER} --cxx ${CMAKE_CXX_COMPILER})
endif()
if(NOT ONNX_AMP_SANITIZE)
  add_test(NAME capi_install COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/capi/install.sh ${CMAKE_COMMAND} ${CMAKE_BINARY_DIR}
           ${CMAKE_CURRENT_BINARY_DIR}/capi/install ${zoo})
  set_tests_properties(capi_install PROPERTIES LABELS slow TIMEOUT 600)  # it installs all plugins
endif()
