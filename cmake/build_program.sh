#!/usr/bin/env bash
# Builds build/onnx-amp-finetune and all that it needs; also the CUDA plugin, if the machine has a driver and nvcc.
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=$(./cmake/bootstrap.sh | tail -1)
cmake --preset release -DCMAKE_PREFIX_PATH="$prefix" >build-configure.log 2>&1 || { cat build-configure.log; exit 1; }
rm -f build-configure.log
targets=(onnx-amp-finetune)
if [ -e /dev/nvidiactl ] && grep -q '^ONNX_AMP_HAS_CUDA:INTERNAL=ON' build/CMakeCache.txt; then targets+=(cuda_plugin); fi
cmake --build build --target "${targets[@]}"
