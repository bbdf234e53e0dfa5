#!/usr/bin/env bash
# Builds everything and runs every test, by ctest. Installs what it needs (cmake/bootstrap.sh); a second run reuses the
# first's work. Ends with one line: "N passed, N failed, N skipped" (Catch2 test cases, and checks that are none);
# failed and skipped ones are named above it.
#   ./test.sh              all of it but the sanitizers
#   ./test.sh --quick      without the CUDA plugin and the tests labelled slow
#   ./test.sh --sanitize   most tests under AddressSanitizer and UndefinedBehaviorSanitizer, and a minute of each fuzz target
set -euo pipefail
cd "$(dirname "$0")"
what=${1:-all}
case "$what" in
  all|--quick|--sanitize) ;;
  *) echo "usage: ./test.sh [--quick|--sanitize]" >&2; exit 2 ;;
esac

needs=--tests
[ "$what" != --sanitize ] || needs=--sanitize
prefix=$(./cmake/bootstrap.sh "$needs" | tail -1)

# build PRESET FOLDER CMAKE_BUILD_ARGUMENT...
build() {
  local preset=$1 folder=$2
  shift 2
  cmake --preset "$preset" -DCMAKE_PREFIX_PATH="$prefix" >configure.log 2>&1 || { cat configure.log; exit 1; }
  rm -f configure.log
  cmake --build "$folder" "$@"
  rm -rf "$folder/results" && mkdir -p "$folder/results"
}
# check FOLDER CTEST_ARGUMENT...: what fails is told by the summary
check() {
  local folder=$1
  shift
  ctest --test-dir "$folder" --output-on-failure --output-junit results/ctest.xml -j "$(nproc)" "$@" || true
}

case "$what" in
  all)
    build release build
    check build
    exec tests/summary.py build
    ;;
  --quick)
    build release build --target onnx-amp-finetune tests_quick
    check build -LE slow
    exec tests/summary.py build
    ;;
  --sanitize)
    build sanitize build-sanitize --target tests_sanitize
    check build-sanitize -L sanitize
    exec tests/summary.py build-sanitize
    ;;
esac
