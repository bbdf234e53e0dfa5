#!/usr/bin/env bash
# Builds everything and runs every test, by ctest. Installs what it needs (cmake/bootstrap.sh); a second run reuses the
# first's work. Ends with one line: "N passed, N failed, N skipped" (Catch2 test cases, and checks that are none);
# failed and skipped ones are named above it.
#   ./test.sh           all of it
#   ./test.sh --quick   without the CUDA plugin, sanitizers, and the tests labelled slow
set -euo pipefail
cd "$(dirname "$0")"
quick=0
case "${1:-}" in
  "") ;;
  --quick) quick=1 ;;
  *) echo "usage: ./test.sh [--quick]" >&2; exit 2 ;;
esac

prefix=$(./cmake/bootstrap.sh --tests | tail -1)

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

if [ $quick = 1 ]; then
  build release build --target onnx-amp-finetune tests_quick
  check build -LE slow
  exec tests/summary.py build
fi
build release build
check build
build sanitize build-sanitize --target tests_sanitize
check build-sanitize -L sanitize
exec tests/summary.py build build-sanitize
