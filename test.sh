#!/usr/bin/env bash
# Builds everything and runs every test. Installs what it needs (cmake/bootstrap.sh); a second run reuses the first's work.
# Ends with one line: "N passed, N failed, N skipped" (Catch2 test cases). Skipped ones are named above it.
set -euo pipefail
cd "$(dirname "$0")"

prefix=$(./cmake/bootstrap.sh | tail -1)
cmake --preset release -DCMAKE_PREFIX_PATH="$prefix" >build-configure.log 2>&1 || { cat build-configure.log; exit 1; }
rm -f build-configure.log
cmake --build build

passed=0 failed=0 skipped=0
# The skipped tests of a log by name, with the reason.
skips() {
  awk '/^-----+$/ { naming = !naming; if (naming) name = ""; next }
       naming { sub(/^ +/, ""); name = name (name ? ", " : "") $0; next }
       /SKIPPED:$/ { why = ""; reading = 1; next }
       reading && /^explicitly with message:$/ { next }
       reading && NF { sub(/^ +/, ""); why = why (why ? " " : "") $0; next }
       reading { print "   skipped: " name ": " why; reading = 0 }'
}

# run NAME ENVIRONMENT...: one test binary
run() {
  local name=$1 xml=build/$1.xml rc=0
  shift
  echo "== $name $*"
  env "$@" "./build/tests/$name" --reporter "console::out=-::colour-mode=none" --reporter "xml::out=$xml" >build/test.log 2>&1 || rc=$?
  skips <build/test.log
  local cases
  cases=$(grep -o '<OverallResultsCases [^>]*>' "$xml" 2>/dev/null | tail -1 || true)
  if [ -z "$cases" ]; then  # it did not get that far
    tail -50 build/test.log
    echo "$name ended with exit code $rc"
    failed=$((failed + 1))
    return
  fi
  count() { sed -E "s/.* $1=\"([0-9]+)\".*/\1/" <<<"$cases"; }
  passed=$((passed + $(count successes) + $(count expectedFailures)))
  failed=$((failed + $(count failures)))
  skipped=$((skipped + $(count skips)))
  if [ "$(count failures)" != 0 ]; then tail -100 build/test.log; fi
  tail -3 build/test.log | grep -E 'test cases|All tests' || true
}

for binary in build/tests/test_*; do
  [ -x "$binary" ] && [ -f "$binary" ] || continue
  run "$(basename "$binary")"
done
# The arithmetic once more as a machine without AVX-512 does it.
run test_ops ONNX_AMP_MAX_ISA=v3

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
