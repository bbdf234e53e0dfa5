#!/usr/bin/env bash
# Builds everything and runs every test with ctest. Installs the packages and libraries that are missing
# (cmake/bootstrap.sh). A second run reuses the first build. The last line is "N passed, N failed, N skipped", which
# counts Catch2's test cases and the scripts. The lines above it name the tests that failed or were skipped.
#   ./test.sh              all tests except those that need clang
#   ./test.sh --quick      without the CUDA plugin and the tests labeled slow
#   ./test.sh --sanitize   most tests under AddressSanitizer and UndefinedBehaviorSanitizer, and each fuzz target for a minute
#   ./test.sh --threads    the tests of modules that start threads, under ThreadSanitizer
#   ./test.sh --aarch64    cross-compiles for 64-bit ARM and runs the tests of the modules and of the zoo with QEMU
#   ./test.sh --ci         all tests except headers, the CUDA plugin without optimization, and one shard of more checks (.ci/run)
# ONNX_AMP_FUZZ_SECONDS: seconds for each fuzz target; default 60 ONNX_AMP_CI_SHARD: the shard of --ci: static,
# sanitize, threads, or all
set -euo pipefail
cd "$(dirname "$0")"
what=${1:-all} fast= root=
case "$what" in
  all|--quick) needs=--tests ;;
  --sanitize|--threads) needs=--sanitize ;;
  --aarch64) needs=--aarch64 ;;
  --ci) needs=--ci fast=yes ;;
  *) echo "usage: ./test.sh [--quick|--sanitize|--threads|--aarch64|--ci]" >&2; exit 2 ;;
esac
prefix=$(./cmake/bootstrap.sh "$needs" | tail -1)

# build PRESET FOLDER CMAKE_BUILD_ARGUMENT...: configures and builds.
build() {
  local preset=$1 folder=$2
  shift 2
  cmake --preset "$preset" -DCMAKE_PREFIX_PATH="$prefix" -DONNX_AMP_FUZZ_SECONDS="${ONNX_AMP_FUZZ_SECONDS:-60}" \
    ${fast:+-DONNX_AMP_CUDA_FAST_COMPILE=ON} ${root:+-DONNX_AMP_ROOT="$root"} \
    >configure.log 2>&1 || { cat configure.log; exit 1; }
  rm -f configure.log
  cmake --build "$folder" "$@"
  rm -rf "$folder/results" && mkdir -p "$folder/results"
}
# check FOLDER CTEST_ARGUMENT...: runs ctest; failures are reported in the summary at the end.
check() {
  local folder=$1
  shift
  ctest --test-dir "$folder" --output-on-failure --output-junit results/ctest.xml -j "$(nproc)" "$@" || true
}

case "$what" in
  all)
    build release build
    check build -LE tidy
    exec tests/summary.py build
    ;;
  --quick)
    build release build --target onnx-amp-finetune tests_quick
    check build -LE 'slow|tidy'
    exec tests/summary.py build
    ;;
  --sanitize)
    build sanitize build-sanitize --target tests_sanitize
    check build-sanitize -L sanitize
    exec tests/summary.py build-sanitize
    ;;
  --threads)
    build threads build-threads --target tests_threads
    check build-threads -L threads
    exec tests/summary.py build-threads
    ;;
  --aarch64)
    root=$(packaging/foreign_root.sh arm64 | tail -1)
    build aarch64 build-aarch64 --target onnx-amp-finetune tests_aarch64
    check build-aarch64 -L aarch64
    exec tests/summary.py build-aarch64
    ;;
  --ci)
    shards=(static sanitize threads)
    commits=$(git rev-list --count HEAD 2>/dev/null || date +%j)
    shard=${ONNX_AMP_CI_SHARD:-${shards[10#$commits % 3]}}
    builds=(build)
    build release build
    left_out=(-LE 'tidy|headers')
    case "$shard" in static | all) left_out=() ;; esac
    check build "${left_out[@]}"
    for kind in sanitize threads; do
      case "$shard" in "$kind" | all) ;; *) continue ;; esac
      build "$kind" "build-$kind" --target tests_guard
      check "build-$kind" -L "$kind" -L guard
      builds+=("build-$kind")
    done
    [ "$shard" = all ] || echo "shard $shard of: ${shards[*]} (the others run at other commits)"
    exec tests/summary.py "${builds[@]}"
    ;;
esac
