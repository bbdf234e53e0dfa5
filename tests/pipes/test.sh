#!/bin/bash
# Tests that the program ends without an error if the reader of its output closes the pipe early, and that it reports
# an error if the device of its output is full.
#   test.sh PROGRAM MODEL VOCABULARY
set -u
program=$1 model=$2 vocabulary=$3
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
failed=0

# closed WORDS...: runs the program, which writes to a pipe whose reader has ended.
closed() {
  { sleep 0.3; "$program" "$@" 2>"$work/err" </dev/null; echo $? >"$work/code"; } | true
  if [ "$(cat "$work/code")" != 0 ] || grep -q "error" "$work/err"; then
    echo "$*: exit $(cat "$work/code")"
    cat "$work/err"
    failed=1
  fi
}
closed --help
closed help train
closed version
closed check "$model"
closed check "$model" --json
closed plan "$model" --use_fp16

# An endless input: the first line of output is enough.
awk 'BEGIN { for (;;) print "a text" }' | timeout 60 "$program" tokenize --vocab "$vocabulary" | head -1 >"$work/first"
codes=("${PIPESTATUS[@]}")
[ "${codes[1]}" = 0 ] || { echo "tokenize: exit ${codes[1]}"; failed=1; }

if [ -w /dev/full ]; then
  "$program" check "$model" >/dev/full 2>"$work/err"
  code=$?
  [ $code = 7 ] || { echo "check on a full device: exit $code"; failed=1; }
fi
exit $failed
